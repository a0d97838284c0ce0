// SPDX-License-Identifier: Apache-2.0
// One evaluation of prefill engines with decoders against a reference: loads the models, runs document after
// document through all of them, and gathers scores. One thread; memory grows with the models, not with the
// number of documents. Not the numbers' form: see eval_scores.h.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/eval.h"
#include "apps/eval_bridge.h"
#include "apps/eval_documents.h"
#include "apps/eval_scores.h"
#include "apps/progress.h"
#include "model/model.h"

namespace isthmus {

// A model with a cache for `sequences` documents.
struct EvalEngine {
  std::string name;  // the file's, without its extension
  std::unique_ptr<Model> model;
  std::unique_ptr<KvPool> pool;
  Score vs_reference;  // of what it says on its own
};

struct EvalPrefill : EvalEngine {
  std::unique_ptr<CaptureMaker> captures;
};

struct EvalDecoder : EvalEngine {
  DecoderInfo info;
};

// One decoder fed by one prefill engine in one mode.
struct EvalPair {
  size_t prefill = 0, decoder = 0;
  SourceKind mode = SourceKind::kProject;
  Score vs_reference, vs_decoder;
  PlaneErrors planes;
};

class PairEvaluation {
 public:
  static Result<std::unique_ptr<PairEvaluation>> load(const PairOptions& o);

  // All documents. Errors: those of the models; kCorrupt when a model's logits are not finite.
  Status run();
  Json json() const;

 private:
  // What one system said in the current document.
  struct Answers {
    std::vector<Prediction> forced;  // after token T - 1 and each of the continuation but the last
    std::vector<TokenId> greedy;
  };
  // The decoder's cache without a bridge, and those that bridges left.
  struct DecoderRun {
    std::unique_ptr<Sequence> own;
    std::vector<std::unique_ptr<Sequence>> bridged;  // as pairs_of_decoder_
    Answers alone;
  };
  using DecoderRuns = std::vector<DecoderRun>;

  explicit PairEvaluation(const PairOptions& o) : options_(o), progress_("eval") {}
  Status load_models();
  Result<EvalEngine> load_engine(const std::filesystem::path& path, Arithmetic arithmetic,
                                 int64_t sequences) const;

  Status run_document(const EvalDocument& d);
  Status run_reference(const EvalDocument& d);
  Status run_decoder(const EvalDocument& d, size_t decoder, DecoderRun& run);
  Status run_prefill(const EvalDocument& d, size_t prefill, DecoderRuns& runs);
  Status score_bridged(const EvalDocument& d, EvalPair& pair, const DecoderRun& run, Sequence& rows);
  Status answer_greedily(const EvalDocument& d, size_t decoder, DecoderRun& run);
  void done(const std::string& what);

  // Step arithmetic over the last prompt token and the continuation; the sequence is back at T - 1 rows
  // afterwards.
  Result<std::vector<Prediction>> forced(const EvalEngine& e, const EvalDocument& d, Sequence& seq) const;

  const PairOptions options_;
  Progress progress_;
  EvalDocuments documents_;
  EvalEngine reference_;
  std::vector<EvalPrefill> prefills_;
  std::vector<EvalDecoder> decoders_;
  std::vector<EvalPair> pairs_;
  std::vector<std::vector<size_t>> pairs_of_decoder_;  // indices into pairs_
  Answers reference_answers_;                          // of the current document
  int64_t steps_done_ = 0, steps_total_ = 0;
};

}  // namespace isthmus
