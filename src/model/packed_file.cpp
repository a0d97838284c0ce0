// SPDX-License-Identifier: Apache-2.0
#include "model/packed_file.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/fs.h"
#include "base/hash.h"

namespace isthmus {
namespace {

constexpr std::string_view kFormat = "isthmus-packed-1";
constexpr std::string_view kExtension = ".safetensors";
constexpr size_t kLine = 64;  // the GEMM reads whole cache lines

std::string tensor_name(const std::string& matrix, DType dtype, int64_t n, int64_t k) {
  return matrix + " " + kernels::PackedMatrix::layout(dtype, n, k);
}

// Of all tensor bytes, in file order.
std::string checksum(std::span<const TensorView* const> tensors) {
  std::vector<std::span<const std::byte>> parts;
  for (const TensorView* t : tensors) parts.push_back(t->data);
  return hex64(xxh3_64_of_parts(parts));
}

// The head of a file whose tensors start at a multiple of kLine.
Result<SafetensorsPlan> plan(std::span<const TensorView> tensors, const PackedFileName& name) {
  SafetensorsMetadata metadata = {{"format", std::string(kFormat)},
                                  {"key", name.key},
                                  {"model", name.model.string()},
                                  {"checksum", std::string(16, '0')},
                                  {"padding", ""}};
  ASSIGN_OR_RETURN(const SafetensorsPlan draft, plan_safetensors(tensors, metadata));
  metadata["checksum"] = checksum(draft.order);
  metadata["padding"] = std::string((kLine - draft.head.size() % kLine) % kLine, ' ');
  return plan_safetensors(tensors, metadata);
}

std::string value_of(const SafetensorsMetadata& metadata, const std::string& name) {
  const auto it = metadata.find(name);
  return it == metadata.end() ? std::string() : it->second;
}

// Packed files in `directory` whose model nobody can open any more.
void remove_orphans(const std::filesystem::path& directory) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().extension() != kExtension) continue;
    const auto file = Safetensors::open(entry.path());
    if (!file.ok() || value_of(file->metadata(), "format") != kFormat) continue;
    std::error_code ignored;
    if (!std::filesystem::exists(value_of(file->metadata(), "model"), ignored)) {
      std::filesystem::remove(entry.path(), ignored);
    }
  }
}

}  // namespace

Result<PackedFile> PackedFile::open(const PackedFileName& name) {
  if (name.path.empty()) return {Code::kNotFound, "packed weights: none asked for"};
  ASSIGN_OR_RETURN(Safetensors file, Safetensors::open(name.path));
  const std::string where = "packed weights " + name.path.string();
  if (value_of(file.metadata(), "format") != kFormat || value_of(file.metadata(), "key") != name.key) {
    return {Code::kNotFound, where + ": of other weights"};
  }
  std::vector<const TensorView*> order;
  for (const TensorView& t : file.tensors()) order.push_back(&t);
  const std::string found = checksum(order), expected = value_of(file.metadata(), "checksum");
  if (found != expected) {
    return {Code::kCorrupt, where + ": checksum: expected " + expected + ", got " + found};
  }
  return PackedFile(std::move(file));
}

std::optional<kernels::PackedMatrix> PackedFile::find(const std::string& matrix, DType dtype, int64_t n,
                                                      int64_t k) const {
  const TensorView* t = file_.tensors().find(tensor_name(matrix, dtype, n, k));
  if (t == nullptr || reinterpret_cast<uintptr_t>(t->data.data()) % kLine != 0) return std::nullopt;
  auto adopted = kernels::PackedMatrix::adopt(dtype, n, k, t->data);
  if (!adopted.ok()) return std::nullopt;
  return std::move(*adopted);
}

Status write_packed_file(const PackedFileName& name, std::span<const NamedMatrix> matrices,
                         uint64_t floor_bytes) {
  std::vector<TensorView> tensors;
  uint64_t bytes = 0;
  for (const NamedMatrix& m : matrices) {
    const std::span<const std::byte> data = m.matrix->storage();
    tensors.push_back({tensor_name(m.name, m.matrix->dtype(), m.matrix->n(), m.matrix->k()),
                       DType::kU8,
                       {static_cast<int64_t>(data.size())},
                       data});
    bytes += data.size();
  }
  ASSIGN_OR_RETURN(const SafetensorsPlan file, plan(tensors, name));
  TRY(make_directories(name.path.parent_path()));
  std::filesystem::path lock = name.path;
  ASSIGN_OR_RETURN(const FileLock held, FileLock::acquire(lock.replace_extension(".lock")));
  remove_orphans(name.path.parent_path());
  PosixFs fs;
  ASSIGN_OR_RETURN(const uint64_t free, fs.free_bytes(name.path.parent_path()));
  if (free < bytes + floor_bytes) {
    return {Code::kResourceExhausted, "packed weights " + name.path.string() + ": " + std::to_string(bytes) +
                                          " bytes would leave less than " + std::to_string(floor_bytes) +
                                          " of the disk"};
  }
  ASSIGN_OR_RETURN(NewFile out, NewFile::create(name.path));
  TRY(out.append(file.head));
  for (const TensorView* t : file.order) TRY(out.append(t->data));
  return out.finish();
}

}  // namespace isthmus
