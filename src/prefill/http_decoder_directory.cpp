// SPDX-License-Identifier: Apache-2.0
#include "prefill/http_decoder_directory.h"

#include <limits>
#include <utility>

#include "model/projection_pack.h"
#include "prefill/prefill_wire.h"

namespace isthmus {
namespace {

constexpr uint64_t kMaxIdentityBytes = 8 << 20;  // a layout has up to 4,096 planes
constexpr size_t kMaxEntries = 16;               // identities that decoders had, packs included

Result<uint16_t> read_port(const Json& j, const std::string& where) {
  ASSIGN_OR_RETURN(const int64_t port, get_int(j, "handoff_port", where));
  if (port < 1 || port > std::numeric_limits<uint16_t>::max()) {
    return Status(Code::kInvalidArgument,
                  where + ": handoff_port: expected 1 to 65535, got " + std::to_string(port));
  }
  return static_cast<uint16_t>(port);
}

}  // namespace

Result<std::unique_ptr<HttpDecoderDirectory>> HttpDecoderDirectory::create(DecoderDirectoryOptions options,
                                                                           const Clock& clock) {
  if (options.decoders.empty()) return Status(Code::kInvalidArgument, "decoders: expected a URL, got none");
  HttpClientOptions http_options;
  http_options.tls = options.tls;
  http_options.max_response_bytes = kMaxIdentityBytes;
  ASSIGN_OR_RETURN(HttpClient http, HttpClient::create(http_options));
  http_options.max_response_bytes = options.max_pack_bytes;
  ASSIGN_OR_RETURN(HttpClient pack_http, HttpClient::create(http_options));
  using Self = HttpDecoderDirectory;
  return std::unique_ptr<Self>(new Self(std::move(options), clock, std::move(http), std::move(pack_http)));
}

// All but the pack.
Result<DecoderInfo> HttpDecoderDirectory::ask_identity(const Peer& peer) const {
  HttpCall call = peer.call("GET", "/v1/identity");
  call.timeouts = {.connect_ms = options_.connect_ms, .idle_ms = -1, .total_ms = options_.identity_ms};
  ASSIGN_OR_RETURN(const Json j, ask_peer_json(http_, peer, call));
  const std::string where = peer.name() + "/v1/identity";
  if (!j.is_object() || !j.contains("identity") || !j.contains("layout")) {
    return Status(Code::kInvalidArgument, where + ": expected identity and layout");
  }
  const Json& identity = j.at("identity");
  ASSIGN_OR_RETURN(const std::string digest, get_string(identity, "digest", where));
  DecoderInfo info;
  Result<Identity> checked = Identity::from_peer(identity.value("fields", Json()), digest);
  if (!checked.ok()) return peer_error(peer, checked.status());
  info.identity = checked.take();
  Result<PlaneLayout> layout = PlaneLayout::from_json(j.at("layout"));
  if (!layout.ok()) return peer_error(peer, layout.status());
  info.layout = layout.take();
  ASSIGN_OR_RETURN(info.handoff_port, read_port(j, where));
  ASSIGN_OR_RETURN(const std::optional<std::string> instance, find_string(j, "instance", where));
  info.instance = instance.value_or("");
  info.url = peer.name();
  info.handoff_host = peer.url.host;
  return info;
}

Result<std::shared_ptr<const Bytes>> HttpDecoderDirectory::fetch_pack(const Peer& peer,
                                                                      const Identity& identity) const {
  ASSIGN_OR_RETURN(const std::string expected, get_string(identity.fields, "projection", peer.name()));
  HttpCall call = peer.call("GET", "/v1/projection");
  call.timeouts = {.connect_ms = options_.connect_ms, .idle_ms = options_.pack_idle_ms, .total_ms = -1};
  ASSIGN_OR_RETURN(const HttpResponse reply, ask_peer(pack_http_, peer, call));
  const std::span<const std::byte> bytes = as_byte_span(reply.body);
  ASSIGN_OR_RETURN(const ProjectionPack pack, load_projection_pack(bytes, peer.name() + "/v1/projection"));
  if (pack.digest.hex() != expected) {
    return Status(Code::kMismatch, peer.name() + ": projection: the identity says " + expected.substr(0, 64) +
                                       ", the pack has " + pack.digest.hex());
  }
  return std::make_shared<const Bytes>(bytes.begin(), bytes.end());
}

HttpDecoderDirectory::InfoPtr HttpDecoderDirectory::known(const Digest& identity, bool fresh_only) {
  MutexLock lock(mutex_);
  const auto it = entries_.find(identity);
  if (it == entries_.end()) return nullptr;
  const bool fresh = clock_.now() - it->second.asked_at < std::chrono::milliseconds(options_.fresh_ms);
  return fresh || !fresh_only ? it->second.info : nullptr;
}

// Adds the pack, ours if we have it, and keeps the whole.
Result<HttpDecoderDirectory::InfoPtr> HttpDecoderDirectory::complete(const Peer& peer, DecoderInfo info) {
  if (const InfoPtr before = known(info.identity.digest, false)) {
    info.projection_pack = before->projection_pack;
  } else {
    ASSIGN_OR_RETURN(info.projection_pack, fetch_pack(peer, info.identity));
  }
  auto whole = std::make_shared<const DecoderInfo>(std::move(info));
  MutexLock lock(mutex_);
  if (entries_.size() >= kMaxEntries && !entries_.contains(whole->identity.digest)) entries_.clear();
  entries_[whole->identity.digest] = {whole, clock_.now()};
  return whole;
}

// Where the wanted identity was seen before, the field that has changed since.
std::string HttpDecoderDirectory::difference_from_known(const Digest& wanted, const Identity& has) {
  const InfoPtr before = known(wanted, false);
  if (before == nullptr) return "";
  return " (" + first_difference(before->identity.fields, has.fields) + ")";
}

Result<std::shared_ptr<const DecoderInfo>> HttpDecoderDirectory::find(const Digest& identity,
                                                                      const std::string& instance) {
  const auto wanted = [&](const DecoderInfo& d) {
    return d.identity.digest == identity && (instance.empty() || d.instance == instance);
  };
  if (InfoPtr fresh = known(identity, true); fresh && wanted(*fresh)) return fresh;
  std::string seen;
  bool all_answered = true;
  for (const Peer& peer : options_.decoders) {
    Result<DecoderInfo> info = ask_identity(peer);
    if (info.ok() && wanted(*info)) return complete(peer, info.take());
    all_answered = all_answered && info.ok();
    seen += "; " + (info.ok() ? peer.name() + " has " + info->identity.digest.hex() +
                                    difference_from_known(identity, info->identity)
                              : info.status().to_string());
  }
  return Status(all_answered ? Code::kNotFound : Code::kUnavailable,
                "decoders: none of the configured ones has identity " + identity.hex() +
                    (instance.empty() ? "" : " and is the one that asks") + seen);
}

}  // namespace isthmus
