// SPDX-License-Identifier: Apache-2.0
// The form of eval's results: the JSON that is kept, and the tables that people read.
#include <cstdio>
#include <string>

#include "apps/eval_pairs.h"
#include "flow/source.h"
#include "kernels/rung.h"
#include "tensor/weights_digest.h"

namespace isthmus {
namespace {

constexpr int kFormatVersion = 1;

Json engine_json(const EvalEngine& e, const std::filesystem::path& path) {
  return {{"name", e.name},
          {"file", path.filename().string()},
          {"weights", weights_digest(e.model->checkpoint().tensors()).hex()}};
}

// The command line that gives this result, with paths relative to where the files are.
std::string command_line(const PairOptions& o) {
  std::string text = "isthmus eval --model " + o.reference.filename().string();
  for (const auto& p : o.prefills) text += " --prefill " + p.filename().string();
  for (const auto& d : o.decoders) text += " --decoder " + d.filename().string();
  text += " --documents " + (o.documents / "").parent_path().filename().string();
  text += " --prompt-tokens " + std::to_string(o.prompt_tokens);
  return text + " --continuation-tokens " + std::to_string(o.continuation_tokens);
}

std::string number(const Json& v, const char* format) {
  char text[32];
  std::snprintf(text, sizeof text, format, v.get<double>());
  return text;
}

std::string with_interval(const Json& v) {
  return number(v["value"], "%.4f") + " [" + number(v["low"], "%.4f") + ", " + number(v["high"], "%.4f") +
         "]";
}

// One row of the main table.
Json score_row(const std::string& who, const std::string& against, const Json& score) {
  return {{"who", who},
          {"against", against},
          {"KL mean", with_interval(score["kl_mean"])},
          {"KL 95th", with_interval(score["kl_p95"])},
          {"top-1", number(score["top1_agreement"]["value"], "%.3f")},
          {"greedy prefix", number(score["greedy_prefix"]["value"], "%.1f")}};
}

}  // namespace

Json PairEvaluation::json() const {
  Json documents = Json::array(), prefills = Json::array(), decoders = Json::array(), pairs = Json::array();
  for (const EvalDocument& d : documents_.used)
    documents.push_back({{"name", d.name}, {"tokens", d.tokens}, {"sha256", d.sha256.hex()}});
  for (size_t i = 0; i < prefills_.size(); ++i) {
    Json j = engine_json(prefills_[i], options_.prefills[i]);
    j["vs_reference"] = prefills_[i].vs_reference.json();
    prefills.push_back(std::move(j));
  }
  for (size_t i = 0; i < decoders_.size(); ++i) {
    Json j = engine_json(decoders_[i], options_.decoders[i]);
    j["vs_reference"] = decoders_[i].vs_reference.json();
    decoders.push_back(std::move(j));
  }
  for (const EvalPair& p : pairs_) {
    pairs.push_back({{"prefill", prefills_[p.prefill].name},
                     {"decoder", decoders_[p.decoder].name},
                     {"mode", source_kind_name(p.mode)},
                     {"vs_reference", p.vs_reference.json()},
                     {"vs_decoder_alone", p.vs_decoder.json()},
                     {"plane_error", p.planes.json()}});
  }
  return {{"format", "isthmus-eval"},
          {"version", kFormatVersion},
          {"command", command_line(options_)},
          {"isthmus", ISTHMUS_VERSION},
          {"kernels", kernels::rung_name(kernels::active_rung())},
          {"prompt_tokens", options_.prompt_tokens},
          {"continuation_tokens", options_.continuation_tokens},
          {"reference", engine_json(reference_, options_.reference)},
          {"documents", std::move(documents)},
          {"documents_too_short", documents_.too_short},
          {"prefill_alone", std::move(prefills)},
          {"decoder_alone", std::move(decoders)},
          {"bridged", std::move(pairs)}};
}

Json pair_tables(const Json& result) {
  Json answers = Json::array(), planes = Json::array();
  for (const Json& p : result["prefill_alone"])
    answers.push_back(score_row(p["name"].get<std::string>() + " alone", "reference", p["vs_reference"]));
  for (const Json& d : result["decoder_alone"])
    answers.push_back(score_row(d["name"].get<std::string>() + " alone", "reference", d["vs_reference"]));
  for (const char* against : {"vs_reference", "vs_decoder_alone"}) {
    const bool reference = std::string(against) == "vs_reference";
    for (const Json& p : result["bridged"]) {
      const std::string who = p["prefill"].get<std::string>() + " -> " + p["decoder"].get<std::string>() +
                              ", " + p["mode"].get<std::string>();
      answers.push_back(score_row(who, reference ? "reference" : "decoder alone", p[against]));
    }
  }
  for (const Json& p : result["bridged"]) {
    const Json& error = p["plane_error"];
    planes.push_back({{"prefill", p["prefill"]},
                      {"decoder", p["decoder"]},
                      {"mode", p["mode"]},
                      {"K", number(error["k_all"], "%.4f")},
                      {"V", number(error["v_all"], "%.4f")},
                      {"K first layer", number(error["k"].front(), "%.4f")},
                      {"K last layer", number(error["k"].back(), "%.4f")},
                      {"V first layer", number(error["v"].front(), "%.4f")},
                      {"V last layer", number(error["v"].back(), "%.4f")}});
  }
  return {{"reference", result["reference"]["name"]},
          {"documents", result["documents"].size()},
          {"prompt_tokens", result["prompt_tokens"]},
          {"continuation_tokens", result["continuation_tokens"]},
          {"answers (KL in nats, 95 % interval over documents)", std::move(answers)},
          {"relative error of bridged K and V rows", std::move(planes)}};
}

}  // namespace isthmus
