// SPDX-License-Identifier: Apache-2.0
// isthmus inspect: what a file or folder of ours is, and whether it is whole.
#include "apps/inspect.h"

#include <cstdio>
#include <fstream>
#include <memory>

#include "apps/command.h"
#include "apps/render.h"
#include "handoff/frame_format.h"
#include "store/block_format.h"
#include "store/ssd_tier.h"

namespace isthmus {
namespace {

namespace stdfs = std::filesystem;

struct InspectOptions {
  stdfs::path path;
  stdfs::path cache;
  std::string purge_source;
  bool json = false;
};

std::string first_bytes(const stdfs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string head(8, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(in.gcount()));
  return head;
}

Result<Json> describe(const InspectOptions& o) {
  std::error_code ignored;
  if (stdfs::is_directory(o.path, ignored)) {
    if (stdfs::exists(o.path / "config.json", ignored)) return describe_model(o.path, o.cache);
    if (is_store_directory(o.path)) return describe_store(o.path);
    return Status(Code::kNotFound,
                  o.path.string() + ": neither a model folder (no config.json) nor a block store");
  }
  if (!stdfs::exists(o.path, ignored)) return Status(Code::kNotFound, o.path.string() + ": no such file");
  if (!stdfs::is_regular_file(o.path, ignored))
    return Status(Code::kInvalidArgument, o.path.string() + ": neither a file nor a folder");
  const std::string head = first_bytes(o.path);
  if (head == block_format::kMagic) return describe_block(o.path);
  if (head.starts_with("ISHF") || o.path.extension() == handoff::kRecordingExtension)
    return describe_recording(o.path);
  if (head.starts_with("GGUF")) return describe_model(o.path, o.cache);
  if (o.path.extension() == block_format::kExtension) return describe_block(o.path);
  auto other = describe_safetensors(o.path);
  if (other.ok()) return other;
  return Status(Code::kUnsupported, o.path.string() +
                                        ": no block file, recording, GGUF model or safetensors file (" +
                                        other.status().message() + ")");
}

int run_purge(const InspectOptions& o) {
  const auto producer = Digest::from_hex(o.purge_source);
  if (!producer) {
    return fail(Status(Code::kInvalidArgument,
                       "--purge-source: expected the 64 hexadecimal digits of a producer, as inspect shows "
                       "them"));
  }
  const auto removed = purge_source_files(o.path, *producer);
  if (!removed.ok()) return fail(removed.status());
  show({{"producer", o.purge_source}, {"removed_blocks", *removed}}, o.json);
  return 0;
}

int run_inspect(const InspectOptions& o) {
  if (!o.purge_source.empty()) return run_purge(o);
  const auto description = describe(o);
  if (!description.ok()) return fail(description.status());
  show(*description, o.json, {"ids"});
  if (!description->contains("damaged")) return 0;
  std::fprintf(stderr, "isthmus: %s is damaged\n", o.path.c_str());
  return 1;
}

}  // namespace

Command add_inspect(CLI::App& parent) {
  auto o = std::make_shared<InspectOptions>();
  CLI::App* app = parent.add_subcommand(
      "inspect", "describe a model, block file, store, handoff recording or projection pack");
  app->add_option(
         "path", o->path,
         "a block file (.isb), the folder of --store, a recording (.ish), a GGUF file, a Hugging Face "
         "folder, or a safetensors file")
      ->required();
  app->add_option("--purge-source", o->purge_source,
                  "remove all blocks that this producer wrote (64 hexadecimal digits, as shown for the "
                  "store) from the store folder; no server may have it open");
  add_cache_option(*app, o->cache);
  app->add_flag("--json", o->json, "one JSON object instead of text");
  return {app, [o] { return run_inspect(*o); }};
}

}  // namespace isthmus
