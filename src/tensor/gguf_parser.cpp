// SPDX-License-Identifier: Apache-2.0
// GGUF: magic, u32 version, u64 tensors, u64 keys; per key: string, u32 type, value; per tensor: string, u32
// n, u64 dims[n] (innermost first), u32 type, u64 offset; padding to the alignment; tensor data at offsets
// from there. Every count is compared with the bytes that are left before anything is allocated for it.
#include <algorithm>
#include <array>
#include <numeric>

#include "base/bytes.h"
#include "base/hash.h"
#include "tensor/gguf.h"

namespace isthmus {
namespace {

constexpr std::array<std::byte, 4> kMagic = {std::byte{'G'}, std::byte{'G'}, std::byte{'U'}, std::byte{'F'}};
constexpr uint64_t kMinKeyBytes = 8 + 4 + 1;             // empty name, type, smallest value
constexpr uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;  // empty name, one dimension
constexpr uint64_t kMaxNameBytes = 65535;  // the format's limit for keys; generous for tensor names
constexpr uint32_t kMaxDimensions = 4;
constexpr uint32_t kMaxAlignment = 1u << 24;

struct TensorType {
  uint32_t id;
  std::string_view name;
  std::optional<DType> dtype;  // nullopt: known by name, not readable here
};
constexpr TensorType kTensorTypes[] = {
    {0, "f32", DType::kF32},
    {1, "f16", DType::kF16},
    {2, "q4_0", DType::kQ4_0},
    {3, "q4_1", DType::kQ4_1},
    {6, "q5_0", DType::kQ5_0},
    {7, "q5_1", DType::kQ5_1},
    {8, "q8_0", DType::kQ8_0},
    {9, "q8_1", {}},
    {10, "q2_k", {}},
    {11, "q3_k", {}},
    {12, "q4_k", DType::kQ4_K},
    {13, "q5_k", DType::kQ5_K},
    {14, "q6_k", DType::kQ6_K},
    {15, "q8_k", {}},
    {16, "iq2_xxs", {}},
    {17, "iq2_xs", {}},
    {18, "iq3_xxs", {}},
    {19, "iq1_s", {}},
    {20, "iq4_nl", {}},
    {21, "iq3_s", {}},
    {22, "iq2_s", {}},
    {23, "iq4_xs", {}},
    {24, "i8", DType::kI8},
    {25, "i16", {}},
    {26, "i32", DType::kI32},
    {27, "i64", DType::kI64},
    {28, "f64", {}},
    {29, "iq1_m", {}},
    {30, "bf16", DType::kBF16},
    {34, "tq1_0", {}},
    {35, "tq2_0", {}},
    {39, "mxfp4", DType::kMxfp4},
    {40, "nvfp4", {}},
};

}  // namespace

std::optional<uint32_t> gguf_tensor_type(DType dtype) {
  for (const TensorType& t : kTensorTypes) {
    if (t.dtype == dtype) return t.id;
  }
  return std::nullopt;
}

class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, std::string where) : bytes_(bytes), reader_(bytes) {
    file_.where_ = std::move(where);
  }

  Result<GgufFile> run() {
    TRY(read_header());
    for (uint64_t i = 0; i < key_count_; ++i) TRY(read_key());
    TRY(index_keys());
    TRY(read_alignment());
    infos_.reserve(static_cast<size_t>(tensor_count_));
    for (uint64_t i = 0; i < tensor_count_; ++i) TRY(read_tensor_info());
    TRY(place_tensors());
    return std::move(file_);
  }

 private:
  struct TensorInfo {
    TensorView view;
    uint64_t offset = 0;
    uint64_t size = 0;
  };

  Status corrupt(const std::string& what) const { return {Code::kCorrupt, file_.where_ + ": " + what}; }
  Status truncated(const std::string& what) const {
    return corrupt("ends inside " + what + " (file has " + std::to_string(bytes_.size()) + " bytes)");
  }

  Status read_header() {
    const auto magic = reader_.take(kMagic.size());
    if (!reader_.ok() || !std::equal(magic.begin(), magic.end(), kMagic.begin())) {
      return corrupt("not a GGUF file (no magic)");
    }
    file_.version_ = reader_.read<uint32_t>();
    tensor_count_ = reader_.read<uint64_t>();
    key_count_ = reader_.read<uint64_t>();
    if (!reader_.ok()) return truncated("the header");
    if (file_.version_ != 2 && file_.version_ != 3) {
      const bool big_endian = (file_.version_ & 0xffffu) == 0;
      return {Code::kUnsupported, file_.where_ + ": GGUF versions 2 and 3, got " +
                                      (big_endian ? "a big-endian file" : std::to_string(file_.version_))};
    }
    if (key_count_ > reader_.remaining() / kMinKeyBytes) return too_many("metadata keys", key_count_);
    if (tensor_count_ > reader_.remaining() / kMinTensorBytes) return too_many("tensors", tensor_count_);
    return {};
  }

  Status too_many(const std::string& what, uint64_t count) const {
    return corrupt(std::to_string(count) + " " + what + " do not fit into " +
                   std::to_string(reader_.remaining()) + " bytes");
  }

  Result<std::string_view> read_name(const std::string& what) {
    const auto length = reader_.read<uint64_t>();
    if (reader_.ok() && length > kMaxNameBytes) {
      return corrupt(what + " has a name of " + std::to_string(length) + " bytes, limit " +
                     std::to_string(kMaxNameBytes));
    }
    const std::string_view name = as_text(reader_.take(static_cast<size_t>(length)));
    if (!reader_.ok()) return truncated(what);
    if (name.empty()) return corrupt(what + " has an empty name");
    return name;
  }

  Status read_key() {
    const std::string ordinal = "metadata key " + std::to_string(file_.metadata_.size());
    ASSIGN_OR_RETURN(const std::string_view key, read_name(ordinal));
    const auto type = reader_.read<uint32_t>();
    GgufValue value;
    value.element = static_cast<GgufType>(type);
    if (value.element == GgufType::kArray) {
      value.is_array = true;
      value.element = static_cast<GgufType>(reader_.read<uint32_t>());
      value.count = reader_.read<uint64_t>();
    }
    if (!reader_.ok()) return truncated("key " + quote_name(key));
    if (static_cast<uint32_t>(value.element) > static_cast<uint32_t>(GgufType::kF64)) {
      return {Code::kUnsupported, file_.where_ + ": key " + quote_name(key) + " has unknown value type " +
                                      std::to_string(static_cast<uint32_t>(value.element))};
    }
    if (value.element == GgufType::kArray) {
      return {Code::kUnsupported, file_.where_ + ": key " + quote_name(key) + " is an array of arrays"};
    }
    TRY(read_elements(key, value));
    file_.metadata_.push_back({key, value});
    return {};
  }

  Status read_elements(std::string_view key, GgufValue& value) {
    const size_t begin = reader_.position();
    const size_t scalar = gguf_scalar_bytes(value.element);
    if (value.count > reader_.remaining() / (scalar != 0 ? scalar : 8))
      return too_many("elements of " + quote_name(key), value.count);
    if (scalar != 0) {
      reader_.skip(static_cast<size_t>(value.count) * scalar);
    } else {
      for (uint64_t i = 0; i < value.count && reader_.ok(); ++i)
        reader_.skip(static_cast<size_t>(reader_.read<uint64_t>()));
    }
    if (!reader_.ok()) return truncated("key " + quote_name(key));
    value.raw = bytes_.subspan(begin, reader_.position() - begin);
    if (value.element == GgufType::kBool &&
        std::any_of(value.raw.begin(), value.raw.end(), [](std::byte b) { return b > std::byte{1}; })) {
      return corrupt("key " + quote_name(key) + " has a bool that is neither 0 nor 1");
    }
    return {};
  }

  Status index_keys() {
    const auto& all = file_.metadata_;
    auto& order = file_.by_key_;
    order.resize(all.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&all](uint32_t a, uint32_t b) { return all[a].key < all[b].key; });
    const auto twin = std::adjacent_find(order.begin(), order.end(),
                                         [&all](uint32_t a, uint32_t b) { return all[a].key == all[b].key; });
    if (twin != order.end()) return corrupt("metadata key " + quote_name(all[*twin].key) + " appears twice");
    return {};
  }

  Status read_alignment() {
    ASSIGN_OR_RETURN(const std::optional<uint32_t> given, file_.find_u32("general.alignment"));
    if (!given) return {};
    if (*given < 8 || *given > kMaxAlignment || (*given & (*given - 1)) != 0) {
      return corrupt("general.alignment: expected a power of two from 8 to 2^24, got " +
                     std::to_string(*given));
    }
    file_.alignment_ = *given;
    return {};
  }

  Status read_tensor_info() {
    TensorInfo info;
    ASSIGN_OR_RETURN(const std::string_view name, read_name("tensor " + std::to_string(infos_.size())));
    info.view.name = name;
    const std::string tensor = "tensor " + quote_name(name);
    const auto dimensions = reader_.read<uint32_t>();
    if (reader_.ok() && (dimensions == 0 || dimensions > kMaxDimensions)) {
      return corrupt(tensor + " has " + std::to_string(dimensions) + " dimensions, expected 1 to 4");
    }
    for (uint32_t i = 0; i < dimensions && reader_.ok(); ++i) {
      const auto d = reader_.read<uint64_t>();
      if (reader_.ok() && (d == 0 || d > static_cast<uint64_t>(INT64_MAX))) {
        return corrupt(tensor + " has a dimension of " + std::to_string(d));
      }
      info.view.shape.insert(info.view.shape.begin(), static_cast<int64_t>(d));
    }
    const auto type = reader_.read<uint32_t>();
    info.offset = reader_.read<uint64_t>();
    if (!reader_.ok()) return truncated(tensor);
    TRY(set_type(tensor, type, info.view));
    const Result<size_t> size = tensor_bytes(info.view.dtype, info.view.shape);
    if (!size.ok()) return corrupt(tensor + ": " + size.status().message());
    info.size = *size;
    infos_.push_back(std::move(info));
    return {};
  }

  Status set_type(const std::string& tensor, uint32_t id, TensorView& view) const {
    const auto* const known = std::find_if(std::begin(kTensorTypes), std::end(kTensorTypes),
                                           [id](const TensorType& t) { return t.id == id; });
    if (known != std::end(kTensorTypes) && known->dtype) {
      view.dtype = *known->dtype;
      return {};
    }
    const std::string name = known != std::end(kTensorTypes) ? std::string(known->name) : "unknown";
    return {Code::kUnsupported, file_.where_ + ": " + tensor + " has type " + name + " (" +
                                    std::to_string(id) + "), which is not supported"};
  }

  Status place_tensors() {
    const uint64_t align = file_.alignment_;
    const uint64_t data_begin = (reader_.position() + align - 1) / align * align;
    const uint64_t data_bytes = bytes_.size() > data_begin ? bytes_.size() - data_begin : 0;
    for (TensorInfo& info : infos_) {
      const std::string tensor = "tensor " + quote_name(info.view.name);
      if (info.offset % align != 0) {
        return corrupt(tensor + " starts at " + std::to_string(info.offset) + ", not a multiple of " +
                       std::to_string(align));
      }
      if (info.offset > data_bytes || info.size > data_bytes - info.offset) {
        return corrupt(tensor + " needs bytes [" + std::to_string(info.offset) + ", +" +
                       std::to_string(info.size) + ") of " + std::to_string(data_bytes) + " in the file");
      }
      info.view.data =
          bytes_.subspan(static_cast<size_t>(data_begin + info.offset), static_cast<size_t>(info.size));
    }
    TRY(check_overlap());
    std::vector<TensorView> views;
    views.reserve(infos_.size());
    for (TensorInfo& info : infos_) views.push_back(std::move(info.view));
    ASSIGN_OR_RETURN(file_.tensors_, TensorTable::build(std::move(views), file_.where_));
    return {};
  }

  Status check_overlap() const {
    std::vector<const TensorInfo*> order;
    for (const TensorInfo& info : infos_) order.push_back(&info);
    std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
    for (size_t i = 1; i < order.size(); ++i) {
      if (order[i - 1]->offset + order[i - 1]->size > order[i]->offset) {
        return corrupt("tensors " + quote_name(order[i - 1]->view.name) + " and " +
                       quote_name(order[i]->view.name) + " overlap");
      }
    }
    return {};
  }

  std::span<const std::byte> bytes_;
  ByteReader reader_;
  GgufFile file_;
  uint64_t tensor_count_ = 0;
  uint64_t key_count_ = 0;
  std::vector<TensorInfo> infos_;
};

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, std::string where) {
  return GgufParser(bytes, std::move(where)).run();
}

Result<GgufFile> GgufFile::open(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(MappedFile mapping, MappedFile::open(path));
  ASSIGN_OR_RETURN(GgufFile file, parse(mapping.bytes(), path.string()));
  file.weight_files_ = {{path, mapping.stamp()}};
  file.mapping_ = std::move(mapping);
  return file;
}

}  // namespace isthmus
