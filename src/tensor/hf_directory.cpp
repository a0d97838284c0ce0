// SPDX-License-Identifier: Apache-2.0
#include "tensor/hf_directory.h"

#include <map>
#include <string>
#include <utility>

namespace isthmus {
namespace {

constexpr size_t kMaxConfigBytes = size_t{4} << 20;
constexpr size_t kMaxIndexBytes = size_t{64} << 20;
constexpr size_t kMaxShards = 4096;

Status corrupt(const std::filesystem::path& where, const std::string& what) {
  return {Code::kCorrupt, where.string() + ": " + what};
}

Result<Json> read_json_object(const std::filesystem::path& path, size_t max_bytes) {
  ASSIGN_OR_RETURN(const std::string text, read_text_file(path, max_bytes));
  Result<Json> json = parse_json(text, path.string());
  if (!json.ok()) return Status(Code::kCorrupt, json.status().message());
  if (!json->is_object())
    return corrupt(path, "expected a JSON object, got " + std::string(json->type_name()));
  return json;
}

// A name that cannot leave the directory.
bool is_shard_name(const std::string& name) {
  constexpr std::string_view kSuffix = ".safetensors";
  if (name.size() <= kSuffix.size() || name.size() > 255 || !name.ends_with(kSuffix) || name.front() == '.')
    return false;
  return name.find_first_of(std::string_view("/\\:\0", 4)) == std::string::npos;
}

// Tensor name → shard name.
using WeightMap = std::map<std::string, std::string, std::less<>>;

Result<WeightMap> read_index(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const Json index, read_json_object(path, kMaxIndexBytes));
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty())
    return corrupt(path, "no weight_map with tensors");
  WeightMap weights;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string() || !is_shard_name(shard.get_ref<const std::string&>())) {
      return corrupt(path, "tensor " + quote_name(tensor) + " lies in " + quote_name(dump_ascii(shard)) +
                               ", expected the name of a .safetensors file in this directory");
    }
    weights.emplace(tensor, shard.get<std::string>());
  }
  return weights;
}

}  // namespace

Result<HfDirectory> HfDirectory::open(const std::filesystem::path& directory) {
  HfDirectory model;
  ASSIGN_OR_RETURN(model.config_, read_json_object(directory / "config.json", kMaxConfigBytes));
  const std::filesystem::path single = directory / "model.safetensors";
  const std::filesystem::path index = directory / "model.safetensors.index.json";
  std::error_code ignored;
  if (std::filesystem::exists(single, ignored)) {
    TRY(model.open_single(single));
  } else if (std::filesystem::exists(index, ignored)) {
    TRY(model.open_shards(directory, index));
  } else {
    return Status(Code::kNotFound,
                  directory.string() + ": neither model.safetensors nor model.safetensors.index.json");
  }
  return model;
}

Status HfDirectory::open_single(const std::filesystem::path& file) {
  ASSIGN_OR_RETURN(Safetensors weights, Safetensors::open(file));
  tensors_ = weights.tensors();
  weight_files_.push_back({file, *weights.stamp()});
  shards_.push_back(std::move(weights));
  return {};
}

Status HfDirectory::open_shards(const std::filesystem::path& directory,
                                const std::filesystem::path& index_file) {
  ASSIGN_OR_RETURN(const WeightMap weights, read_index(index_file));
  std::map<std::string, size_t> expected;  // tensors per shard
  for (const auto& [tensor, shard] : weights) ++expected[shard];
  if (expected.size() > kMaxShards) return corrupt(index_file, std::to_string(expected.size()) + " shards");

  std::vector<TensorView> views;
  for (const auto& [name, count] : expected) {
    const std::filesystem::path path = directory / name;
    ASSIGN_OR_RETURN(Safetensors shard, Safetensors::open(path));
    for (const TensorView& t : shard.tensors()) {
      const auto placed = weights.find(t.name);
      if (placed == weights.end() || placed->second != name) {
        return corrupt(path, "holds tensor " + quote_name(t.name) + ", which the index places " +
                                 (placed == weights.end() ? "nowhere" : "in " + quote_name(placed->second)));
      }
      views.push_back(t);
    }
    // Its tensors are unique and all placed here, so a smaller number means that some are missing.
    if (shard.tensors().size() != count) {
      return corrupt(path, "holds " + std::to_string(shard.tensors().size()) + " tensors, the index places " +
                               std::to_string(count) + " in it");
    }
    weight_files_.push_back({path, *shard.stamp()});
    shards_.push_back(std::move(shard));
  }
  ASSIGN_OR_RETURN(tensors_, TensorTable::build(std::move(views), directory.string()));
  return {};
}

}  // namespace isthmus
