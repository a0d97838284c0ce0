// SPDX-License-Identifier: Apache-2.0
// The decoders of our own configuration, asked over HTTP for what they are: identity, layout, handoff port
// (GET /v1/identity) and projection pack (GET /v1/projection), all checked before use. Packs are fetched
// once per identity; the rest is asked again before a call that comes a moment later, since a decoder that
// restarts may listen on another port. Any thread; no lock is held while the network is waited for.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/sync.h"
#include "flow/prompt_engine.h"
#include "prefill/peer_http.h"

namespace isthmus {

struct DecoderDirectoryOptions {
  std::vector<Peer> decoders;
  TlsOptions tls;
  int64_t connect_ms = 2'000;
  int64_t identity_ms = 5'000;                   // one identity request
  int64_t pack_idle_ms = 30'000;                 // longest silence while a pack arrives
  int64_t fresh_ms = 1'000;                      // how long an identity is used without asking again
  uint64_t max_pack_bytes = uint64_t{16} << 30;  // of a projection pack
};

class HttpDecoderDirectory final : public DecoderDirectory {
 public:
  // kInvalidArgument: TLS files, no decoders. `clock` outlives the directory.
  static Result<std::unique_ptr<HttpDecoderDirectory>> create(DecoderDirectoryOptions options,
                                                              const Clock& clock = SystemClock::instance());

  Result<std::shared_ptr<const DecoderInfo>> find(const Digest& identity,
                                                  const std::string& instance) override;

 private:
  using InfoPtr = std::shared_ptr<const DecoderInfo>;
  struct Entry {
    InfoPtr info;
    MonotonicTime asked_at;
  };

  HttpDecoderDirectory(DecoderDirectoryOptions options, const Clock& clock, HttpClient http,
                       HttpClient pack_http)
      : options_(std::move(options)),
        clock_(clock),
        http_(std::move(http)),
        pack_http_(std::move(pack_http)) {}

  Result<DecoderInfo> ask_identity(const Peer& peer) const;
  Result<std::shared_ptr<const Bytes>> fetch_pack(const Peer& peer, const Identity& identity) const;
  Result<InfoPtr> complete(const Peer& peer, DecoderInfo info);
  InfoPtr known(const Digest& identity, bool fresh_only);
  std::string difference_from_known(const Digest& wanted, const Identity& has);

  const DecoderDirectoryOptions options_;
  const Clock& clock_;
  const HttpClient http_;
  const HttpClient pack_http_;

  Mutex mutex_;
  std::map<Digest, Entry> entries_ GUARDED_BY(mutex_);  // by identity
};

}  // namespace isthmus
