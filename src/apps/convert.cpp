// SPDX-License-Identifier: Apache-2.0
// isthmus convert: a GGUF file with its weight matrices in another element type; everything else as it was.
#include <algorithm>
#include <memory>
#include <thread>

#include "apps/command.h"
#include "apps/inspect.h"
#include "apps/progress.h"
#include "apps/render.h"
#include "kernels/block_format.h"
#include "kernels/fp8_blocks.h"
#include "tensor/gguf.h"
#include "tensor/gguf_writer.h"

namespace isthmus {
namespace {

namespace stdfs = std::filesystem;

struct Target {
  const char* name;
  DType dtype;
  uint32_t file_type;  // what GGUF files call it in general.file_type
  bool fp8 = false;    // values rounded to FP8 blocks first, where FP8 checkpoints do so
};
constexpr Target kTargets[] = {{"q4_0", DType::kQ4_0, 2},    {"q8_0", DType::kQ8_0, 7},
                               {"mxfp4", DType::kMxfp4, 38}, {"fp8", DType::kBF16, 32, true},
                               {"bf16", DType::kBF16, 32},   {"f16", DType::kF16, 1},
                               {"f32", DType::kF32, 0}};

struct ConvertOptions {
  stdfs::path in, out;
  std::string to;
  bool layers_only = false;
  bool force = false;
  bool json = false;
};

const Target& target_named(const std::string& name) {
  for (const Target& t : kTargets) {
    if (name == t.name) return t;
  }
  ISTHMUS_CHECK(!"an option that the parser let through");
  return kTargets[0];
}

bool is_weight_matrix(const TensorView& t) {
  return t.shape.size() == 2 && t.name.ends_with(".weight") && t.name.find("norm") == std::string::npos;
}

bool is_in_layer(const TensorView& t) {
  return t.name.starts_with("blk.");
}

Status check_convertible(const TensorView& t, DType to) {
  const std::string tensor = "convert: tensor " + quote_name(t.name);
  if (t.dtype == DType::kI8 || t.dtype == DType::kU8 || t.dtype == DType::kI32 || t.dtype == DType::kI64 ||
      t.dtype == DType::kF8E8M0) {
    return {Code::kUnsupported,
            tensor + ": expected floating point values, got " + std::string(dtype_info(t.dtype).name)};
  }
  const DTypeInfo& info = dtype_info(to);
  if (t.row_elements() % info.block_elements != 0) {
    return {Code::kUnsupported, tensor + ": rows of " + std::to_string(t.row_elements()) + " values, " +
                                    std::string(info.name) + " needs a multiple of " +
                                    std::to_string(info.block_elements)};
  }
  return {};
}

Status convert_rows(const TensorView& t, DType to, int64_t first, int64_t last, Bytes& out) {
  const int64_t n = t.row_elements();
  const size_t row = row_bytes(to, n);
  std::vector<float> values(static_cast<size_t>(n));
  for (int64_t r = first; r < last; ++r) {
    kernels::dequantize_row(t.dtype, t.row(r).data(), n, values.data());
    TRY(kernels::quantize_row(to, values.data(), n, out.data() + static_cast<size_t>(r) * row));
  }
  return {};
}

// Rows are independent: each thread takes a run of them.
Result<Bytes> convert_tensor(const TensorView& t, DType to) {
  TRY(check_convertible(t, to));
  Bytes out(static_cast<size_t>(t.rows()) * row_bytes(to, t.row_elements()));
  const auto parts = static_cast<int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<Status> results(static_cast<size_t>(parts));
  {
    std::vector<std::jthread> threads;
    for (int64_t p = 0; p < parts; ++p) {
      threads.emplace_back([&t, to, p, parts, &out, &results] {
        results[static_cast<size_t>(p)] =
            convert_rows(t, to, t.rows() * p / parts, t.rows() * (p + 1) / parts, out);
      });
    }
  }
  for (const Status& s : results) {
    if (!s.ok()) return Status(s.code(), "convert: tensor " + quote_name(t.name) + ": " + s.message());
  }
  return out;
}

// GGUF has no FP8 type: the file holds the values an FP8 checkpoint would have, as bf16.
Result<Bytes> convert_to_fp8_values(const TensorView& t, DType to) {
  TRY(check_convertible(t, to));
  const int64_t rows = t.rows(), n = t.row_elements();
  std::vector<float> values(static_cast<size_t>(rows * n));
  for (int64_t r = 0; r < rows; ++r) {
    kernels::dequantize_row(t.dtype, t.row(r).data(), n, values.data() + r * n);
  }
  kernels::round_to_fp8_blocks(values.data(), rows, n);
  const TensorView rounded{
      .name = t.name, .dtype = DType::kF32, .shape = t.shape, .data = std::as_bytes(std::span(values))};
  return convert_tensor(rounded, to);
}

Status check_paths(const ConvertOptions& o) {
  std::error_code ignored;
  if (stdfs::equivalent(o.in, o.out, ignored))
    return {Code::kInvalidArgument, "convert: input and output are the same file"};
  if (!o.force && stdfs::exists(o.out, ignored))
    return {Code::kInvalidArgument, o.out.string() + ": exists; --force replaces it"};
  return {};
}

Result<Json> convert(const ConvertOptions& o) {
  TRY(check_paths(o));
  const Target& target = target_named(o.to);
  ASSIGN_OR_RETURN(const GgufFile in, GgufFile::open(o.in));
  GgufWriter writer;
  writer.copy_metadata(in);
  writer.set_u32("general.file_type", target.file_type);
  if (dtype_info(target.dtype).block_elements > 1) writer.set_u32("general.quantization_version", 2);
  std::vector<Bytes> converted;
  std::vector<TensorView> written;
  int64_t matrices = 0;
  Progress progress("convert");
  for (TensorView t : in.tensors().all()) {
    progress.update(t.name, static_cast<int64_t>(written.size()), static_cast<int64_t>(in.tensors().size()));
    if (is_weight_matrix(t) && (!o.layers_only || is_in_layer(t))) {
      ++matrices;
      const bool fp8 = target.fp8 && is_in_layer(t);  // FP8 checkpoints leave embedding and head alone
      if (fp8 || t.dtype != target.dtype) {
        ASSIGN_OR_RETURN(Bytes bytes,
                         fp8 ? convert_to_fp8_values(t, target.dtype) : convert_tensor(t, target.dtype));
        converted.push_back(std::move(bytes));
        t.dtype = target.dtype;
        t.data = converted.back();
      }
    }
    writer.add_tensor(t);
    written.push_back(std::move(t));
  }
  if (matrices == 0) return Status(Code::kUnsupported, o.in.string() + ": has no weight matrices");
  PosixFs fs;
  TRY(writer.write_file(fs, o.out));
  std::error_code error;
  return Json{{"file", o.out.string()},
              {"converted_tensors", converted.size()},
              {"kept_tensors", written.size() - converted.size()},
              {"in_bytes", stdfs::file_size(o.in, error)},
              {"out_bytes", stdfs::file_size(o.out, error)},
              {"tensors", tensor_types_json(written)}};
}

int run_convert(const ConvertOptions& o) {
  const auto result = convert(o);
  if (!result.ok()) return fail(result.status());
  show(*result, o.json);
  return 0;
}

}  // namespace

Command add_convert(CLI::App& parent) {
  auto o = std::make_shared<ConvertOptions>();
  CLI::App* app = parent.add_subcommand("convert", "write a GGUF model in another element type");
  app->footer(
      "Converts weight matrices, embedding and output included; norms and biases stay as they are. fp8: the\n"
      "layers' matrices get the values that an FP8 checkpoint would have (e4m3, one f32 scale for each 128 "
      "x\n"
      "128 block), written as bf16 as GGUF has no such type; embedding and output become plain bf16.");
  app->add_option("--model", o->in, "the GGUF file to read")->required();
  app->add_option("--to", o->to,
                  "q4_0: smallest with fast kernels; q8_0: nearly lossless; mxfp4; fp8: see below; bf16, "
                  "f16, f32: plain")
      ->required()
      ->check(CLI::IsMember({"q4_0", "q8_0", "mxfp4", "fp8", "bf16", "f16", "f32"}));
  app->add_option("out", o->out, "the GGUF file to write")->required();
  app->add_flag("--layers-only", o->layers_only, "leave embedding and output as they are");
  app->add_flag("--force", o->force, "replace the output file when it exists");
  app->add_flag("--json", o->json, "one JSON object instead of text");
  return {app, [o] { return run_convert(*o); }};
}

}  // namespace isthmus
