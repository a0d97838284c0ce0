// SPDX-License-Identifier: Apache-2.0
// isthmus export-projection: the pack that a decode server publishes, as a file.
#include <array>
#include <cstdio>
#include <memory>

#include "apps/command.h"
#include "apps/render.h"
#include "base/fs.h"
#include "model/projection_pack.h"

namespace isthmus {
namespace {

struct ExportOptions {
  std::filesystem::path model;
  std::filesystem::path out;
  bool json = false;
};

Result<Json> write_pack(const ExportOptions& o) {
  ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::open(o.model));
  ASSIGN_OR_RETURN(const Bytes pack, export_projection(checkpoint));
  ASSIGN_OR_RETURN(const ProjectionPack loaded, load_projection_pack(pack, "the pack just made"));
  PosixFs fs;
  const std::array<std::span<const std::byte>, 1> parts = {pack};
  TRY(write_file_durably(fs, std::filesystem::absolute(o.out), parts));
  return Json{{"file", o.out.string()}, {"file_bytes", pack.size()}, {"digest", loaded.digest.hex()}};
}

int run_export(const ExportOptions& o) {
  const auto written = write_pack(o);
  if (!written.ok()) return fail(written.status());
  show(*written, o.json);
  return 0;
}

}  // namespace

Command add_export_projection(CLI::App& parent) {
  auto o = std::make_shared<ExportOptions>();
  o->model = default_model();
  CLI::App* app = parent.add_subcommand("export-projection", "write a model's projection pack to a file");
  app->footer(
      "The pack holds what turns layer inputs into the decoder's cache (norms, K and V weights, RoPE). A\n"
      "bridge does not need the file: prefill engines fetch the pack from the decoder themselves.");
  app->add_option("out", o->out, "the safetensors file to write")->required();
  app->add_option("--model", o->model, "GGUF file or Hugging Face folder")->capture_default_str();
  app->add_flag("--json", o->json, "one JSON object instead of text");
  return {app, [o] { return run_export(*o); }};
}

}  // namespace isthmus
