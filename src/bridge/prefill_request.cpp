// SPDX-License-Identifier: Apache-2.0
#include "bridge/prefill_request.h"

namespace isthmus {
namespace {

TransferSpec transfer_of(const PrefillCall& call, const DecoderInfo& decoder, const Digest& producer) {
  TransferSpec t;
  t.id = call.transfer_id;
  t.prompt_tokens = static_cast<int64_t>(call.ids.size());
  t.first = call.resume_from;
  t.last = t.prompt_tokens - 1;
  t.ids = ids_digest(call.ids);
  t.identity = decoder.identity.digest;
  t.source = Source{call.mode, producer};
  t.layout = decoder.layout;
  return t;
}

}  // namespace

Result<PrefillReport> prefill_request(const PrefillCall& call, PrefillStages& s, std::stop_token cancel) {
  ASSIGN_OR_RETURN(const auto decoder,
                   s.decoders.find(call.identity, call.instance));  // identity and projection pack, checked
  const TransferSpec spec = transfer_of(call, *decoder, s.engine.producer());
  ASSIGN_OR_RETURN(auto sink, s.sender.open(spec, decoder->handoff_host, decoder->handoff_port, cancel));
  auto capture = s.make_capture(call, *decoder, *sink);
  if (!capture.ok()) {
    sink->abort(capture.status());
    return capture.status();
  }
  auto report = s.engine.run(call.ids, call.resume_from, **capture, cancel);  // rows leave while it runs
  const Status sealed = report.ok() ? (*capture)->seal() : report.status();
  if (!sealed.ok()) {
    sink->abort(sealed);
    return sealed;
  }
  report->shipped_tokens = (*capture)->shipped_tokens();
  return report;
}

}  // namespace isthmus
