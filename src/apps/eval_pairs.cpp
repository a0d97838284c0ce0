// SPDX-License-Identifier: Apache-2.0
#include "apps/eval_pairs.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "apps/loaded_model.h"
#include "base/statistics.h"
#include "kernels/step_linear.h"
#include "kernels/vector_ops.h"
#include "model/projection_pack.h"
#include "model/teacher_forced.h"

namespace isthmus {
namespace {

constexpr SourceKind kModes[] = {SourceKind::kKv, SourceKind::kProject};

std::span<const TokenId> prompt_rows(const EvalDocument& d, const PairOptions& o) {
  return std::span(d.ids).first(static_cast<size_t>(o.prompt_tokens - 1));
}

// Its row is the first that is computed as a generated token's: by the decoder, bridged or not.
TokenId last_prompt_token(const EvalDocument& d, const PairOptions& o) {
  return d.ids[static_cast<size_t>(o.prompt_tokens - 1)];
}

// The next `n` tokens of several sequences of one model, each the likeliest. `first` follows their rows.
Result<std::vector<std::vector<TokenId>>> greedy(Model& model, std::span<Sequence* const> sequences,
                                                 TokenId first, int64_t n) {
  const auto vocab = static_cast<size_t>(model.config().vocab);
  std::vector<std::vector<TokenId>> answers(sequences.size());
  std::vector<float> logits(kernels::kMaxStepRows * vocab);
  for (size_t at = 0; at < sequences.size(); at += kernels::kMaxStepRows) {
    const size_t count = std::min<size_t>(kernels::kMaxStepRows, sequences.size() - at);
    for (int64_t i = 0; i < n; ++i) {
      std::vector<StepToken> rows;
      for (size_t s = at; s < at + count; ++s)
        rows.push_back({answers[s].empty() ? first : answers[s].back(), sequences[s]});
      TRY(model.step(rows, logits.data()));
      for (size_t s = 0; s < count; ++s) {
        answers[at + s].push_back(
            static_cast<TokenId>(kernels::argmax(logits.data() + s * vocab, static_cast<int64_t>(vocab))));
      }
    }
  }
  return answers;
}

}  // namespace

Result<std::unique_ptr<PairEvaluation>> PairEvaluation::load(const PairOptions& o) {
  std::unique_ptr<PairEvaluation> e(new PairEvaluation(o));
  ASSIGN_OR_RETURN(const ModelText text, load_text(o.reference));
  ASSIGN_OR_RETURN(e->documents_,
                   read_documents(o.documents, text.tokenizer, o.prompt_tokens + o.continuation_tokens));
  TRY(e->load_models());
  const auto engines = static_cast<int64_t>(1 + o.prefills.size() + 2 * o.decoders.size());
  const auto pairs = static_cast<int64_t>(e->pairs_.size());
  e->steps_total_ = static_cast<int64_t>(e->documents_.used.size()) * (engines + pairs);
  return e;
}

Result<EvalEngine> PairEvaluation::load_engine(const std::filesystem::path& path, Arithmetic arithmetic,
                                               int64_t sequences) const {
  EvalEngine e;
  e.name = path.stem().string();
  ASSIGN_OR_RETURN(e.model, Model::load(path, {.arithmetic = arithmetic}));
  const int64_t tokens = options_.prompt_tokens + options_.continuation_tokens;
  if (tokens > e.model->max_positions()) {
    return Status(Code::kInvalidArgument, path.string() + ": " + std::to_string(tokens) +
                                              " tokens are more than its context of " +
                                              std::to_string(e.model->max_positions()));
  }
  const int64_t pages = (tokens + kPageTokens - 1) / kPageTokens;
  ASSIGN_OR_RETURN(KvPool pool, KvPool::create(e.model->kv_shape(), sequences * pages * kPageTokens));
  e.pool = std::make_unique<KvPool>(std::move(pool));
  if (reference_.model != nullptr && e.model->config().vocab != reference_.model->config().vocab) {
    return Status(Code::kInvalidArgument,
                  path.string() + ": a vocabulary of " + std::to_string(e.model->config().vocab) +
                      ", the reference has " + std::to_string(reference_.model->config().vocab));
  }
  return e;
}

Status PairEvaluation::load_models() {
  progress_.update("loading models", 0, 1);
  ASSIGN_OR_RETURN(reference_, load_engine(options_.reference, Arithmetic::kReferenceF32, 1));
  for (const auto& path : options_.prefills) {
    ASSIGN_OR_RETURN(EvalEngine engine, load_engine(path, Arithmetic::kProduction, 1));
    const Checkpoint& checkpoint = engine.model->checkpoint();
    ASSIGN_OR_RETURN(const Digest projection, projection_digest(checkpoint));
    auto captures =
        std::make_unique<CaptureMaker>(checkpoint.config(), projection, SameProjection::kProjectAgain);
    prefills_.push_back({std::move(engine), std::move(captures)});
  }
  const auto caches = static_cast<int64_t>(1 + std::size(kModes) * prefills_.size());
  for (const auto& path : options_.decoders) {
    ASSIGN_OR_RETURN(EvalEngine engine, load_engine(path, Arithmetic::kProduction, caches));
    ASSIGN_OR_RETURN(DecoderInfo info, decoder_info(*engine.model, engine.name));
    decoders_.push_back({std::move(engine), std::move(info)});
  }
  pairs_of_decoder_.resize(decoders_.size());
  for (size_t p = 0; p < prefills_.size(); ++p) {
    for (size_t d = 0; d < decoders_.size(); ++d) {
      for (const SourceKind mode : kModes) {
        pairs_of_decoder_[d].push_back(pairs_.size());
        pairs_.push_back(
            {.prefill = p, .decoder = d, .mode = mode, .vs_reference = {}, .vs_decoder = {}, .planes = {}});
      }
    }
  }
  return {};
}

Status PairEvaluation::run() {
  for (const EvalDocument& d : documents_.used) TRY(run_document(d));
  return {};
}

void PairEvaluation::done(const std::string& what) {
  progress_.update(what, ++steps_done_, steps_total_);
}

Status PairEvaluation::run_document(const EvalDocument& d) {
  for (EvalPrefill& p : prefills_) p.vs_reference.open_document();
  for (EvalDecoder& e : decoders_) e.vs_reference.open_document();
  for (EvalPair& p : pairs_) {
    p.vs_reference.open_document();
    p.vs_decoder.open_document();
  }
  TRY(run_reference(d));
  DecoderRuns runs(decoders_.size());
  for (size_t i = 0; i < decoders_.size(); ++i) TRY(run_decoder(d, i, runs[i]));
  for (size_t i = 0; i < prefills_.size(); ++i) TRY(run_prefill(d, i, runs));
  for (size_t i = 0; i < decoders_.size(); ++i) TRY(answer_greedily(d, i, runs[i]));
  return {};
}

Result<std::vector<Prediction>> PairEvaluation::forced(const EvalEngine& e, const EvalDocument& d,
                                                       Sequence& seq) const {
  const int64_t rows = seq.length();
  const auto ids =
      std::span(d.ids).subspan(static_cast<size_t>(rows), static_cast<size_t>(options_.continuation_tokens));
  std::vector<Prediction> out;
  TRY(force_steps(*e.model, ids, seq, [&](int64_t position, std::span<const float> logits) -> Status {
    out.push_back(Prediction::of(logits));
    if (std::isfinite(out.back().log_p[0])) return {};
    return {Code::kCorrupt, "eval: " + e.name + ", " + d.name + ": token " + std::to_string(position) +
                                ": its logits are not finite"};
  }));
  seq.truncate(rows);
  return out;
}

Status PairEvaluation::run_reference(const EvalDocument& d) {
  Sequence seq(*reference_.pool);
  TRY(read_prompt(*reference_.model, prompt_rows(d, options_), seq, nullptr, kChunkTokens, {}));
  ASSIGN_OR_RETURN(reference_answers_.forced, forced(reference_, d, seq));
  Sequence* const sequences[] = {&seq};
  const TokenId last = last_prompt_token(d, options_);
  ASSIGN_OR_RETURN(auto answers, greedy(*reference_.model, sequences, last, options_.continuation_tokens));
  reference_answers_.greedy = std::move(answers[0]);
  done(d.name + ": reference");
  return {};
}

Status PairEvaluation::run_decoder(const EvalDocument& d, size_t decoder, DecoderRun& run) {
  EvalDecoder& e = decoders_[decoder];
  run.own = std::make_unique<Sequence>(*e.pool);
  for (size_t i = 0; i < pairs_of_decoder_[decoder].size(); ++i)
    run.bridged.push_back(std::make_unique<Sequence>(*e.pool));
  TRY(read_prompt(*e.model, prompt_rows(d, options_), *run.own, nullptr, kChunkTokens, {}));
  ASSIGN_OR_RETURN(run.alone.forced, forced(e, d, *run.own));
  for (size_t i = 0; i < run.alone.forced.size(); ++i)
    e.vs_reference.add(reference_answers_.forced[i], run.alone.forced[i]);
  done(d.name + ": " + e.name + " alone");
  return {};
}

// One run of the prompt serves all decoders, both modes, and the prefill engine's own answer.
Status PairEvaluation::run_prefill(const EvalDocument& d, size_t prefill, DecoderRuns& runs) {
  EvalPrefill& e = prefills_[prefill];
  std::vector<BridgeTarget> targets;
  std::vector<std::pair<EvalPair*, const DecoderRun*>> pairs;
  for (size_t i = 0; i < decoders_.size(); ++i) {
    for (size_t j = 0; j < pairs_of_decoder_[i].size(); ++j) {
      EvalPair& pair = pairs_[pairs_of_decoder_[i][j]];
      if (pair.prefill != prefill) continue;
      targets.push_back({&decoders_[i].info, pair.mode, runs[i].bridged[j].get()});
      pairs.emplace_back(&pair, &runs[i]);
    }
  }
  Sequence own(*e.pool);
  TRY(bridge_prompt(*e.model, *e.captures,
                    std::span(d.ids).first(static_cast<size_t>(options_.prompt_tokens)), own, targets));
  ASSIGN_OR_RETURN(const std::vector<Prediction> alone, forced(e, d, own));
  for (size_t i = 0; i < alone.size(); ++i) e.vs_reference.add(reference_answers_.forced[i], alone[i]);
  Sequence* const sequences[] = {&own};
  const TokenId last = last_prompt_token(d, options_);
  ASSIGN_OR_RETURN(const auto answers, greedy(*e.model, sequences, last, options_.continuation_tokens));
  e.vs_reference.add_answers(reference_answers_.greedy, answers[0]);
  done(d.name + ": " + e.name);
  for (size_t i = 0; i < pairs.size(); ++i)
    TRY(score_bridged(d, *pairs[i].first, *pairs[i].second, *targets[i].rows));
  return {};
}

Status PairEvaluation::score_bridged(const EvalDocument& d, EvalPair& pair, const DecoderRun& run,
                                     Sequence& rows) {
  const EvalDecoder& e = decoders_[pair.decoder];
  pair.planes.add(*run.own, rows);
  ASSIGN_OR_RETURN(const std::vector<Prediction> bridged, forced(e, d, rows));
  for (size_t i = 0; i < bridged.size(); ++i) {
    pair.vs_reference.add(reference_answers_.forced[i], bridged[i]);
    pair.vs_decoder.add(run.alone.forced[i], bridged[i]);
  }
  done(d.name + ": " + prefills_[pair.prefill].name + " to " + e.name);
  return {};
}

Status PairEvaluation::answer_greedily(const EvalDocument& d, size_t decoder, DecoderRun& run) {
  EvalDecoder& e = decoders_[decoder];
  std::vector<Sequence*> sequences = {run.own.get()};
  for (const auto& seq : run.bridged) sequences.push_back(seq.get());
  const TokenId last = last_prompt_token(d, options_);
  ASSIGN_OR_RETURN(const auto answers, greedy(*e.model, sequences, last, options_.continuation_tokens));
  e.vs_reference.add_answers(reference_answers_.greedy, answers[0]);
  for (size_t i = 0; i < run.bridged.size(); ++i) {
    EvalPair& pair = pairs_[pairs_of_decoder_[decoder][i]];
    pair.vs_reference.add_answers(reference_answers_.greedy, answers[i + 1]);
    pair.vs_decoder.add_answers(answers[0], answers[i + 1]);
  }
  done(d.name + ": " + e.name + ", greedy answers");
  return {};
}

Result<Json> eval_pairs(const PairOptions& o) {
  ASSIGN_OR_RETURN(const std::unique_ptr<PairEvaluation> evaluation, PairEvaluation::load(o));
  TRY(evaluation->run());
  return evaluation->json();
}

}  // namespace isthmus
