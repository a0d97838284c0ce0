// SPDX-License-Identifier: Apache-2.0
// Heads of model files: what a start reads before the first weight. Counted by scripts/instruction-counts.
#include <string>
#include <vector>

#include "base/counted_bench.h"
#include "base/test_data.h"
#include "tensor/gguf.h"
#include "tensor/gguf_writer.h"
#include "tensor/safetensors.h"

namespace isthmus {
namespace {

// The metadata of a model with 30 layers and 49,152 tokens, over weights of one block each.
void parse_gguf(benchmark::State& state) {
  GgufWriter writer;
  writer.set_string("general.architecture", "llama");
  writer.set_u32("llama.block_count", 30);
  writer.set_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  writer.set_bool("tokenizer.ggml.add_bos_token", false);
  std::vector<std::string> tokens, merges;
  for (int i = 0; i < 49'152; ++i) {
    const std::string digits = std::to_string(i);
    tokens.push_back("tok" + digits);
    merges.push_back("t " + digits);
  }
  writer.set_string_array("tokenizer.ggml.tokens", tokens);
  writer.set_string_array("tokenizer.ggml.merges", merges);
  const std::vector<std::byte> block(row_bytes(DType::kQ4_0, 32));
  for (int layer = 0; layer < 30; ++layer) {
    for (const char* name : {"attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate",
                             "ffn_up", "ffn_down"}) {
      TensorView tensor;
      tensor.name = "blk." + std::to_string(layer) + "." + name + ".weight";
      tensor.dtype = DType::kQ4_0;
      tensor.shape = {1, 32};
      tensor.data = block;
      writer.add_tensor(tensor);
    }
  }
  const Bytes file = writer.to_bytes().take();
  counted_iterations(state, [&] {
    const auto parsed = GgufFile::parse(file, "model.gguf");
    ISTHMUS_CHECK(parsed.ok() && parsed->get_string_array("tokenizer.ggml.tokens")->size() == tokens.size());
  });
}
BENCHMARK(parse_gguf)->Iterations(3);

void parse_safetensors(benchmark::State& state) {
  const MappedFile file = MappedFile::open(test_data("qwen3_tiny/model.safetensors")).take();
  counted_iterations(state, [&] { ISTHMUS_CHECK(Safetensors::parse(file.bytes(), "model").ok()); });
}
BENCHMARK(parse_safetensors)->Iterations(20);

}  // namespace
}  // namespace isthmus
