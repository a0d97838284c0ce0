// SPDX-License-Identifier: Apache-2.0
#include "handoff/sender.h"

#include "handoff/handshake.h"
#include "handoff/outgoing.h"
#include "net/tcp.h"

namespace isthmus::handoff {

Result<std::unique_ptr<OutgoingTransfer>> Sender::open(const TransferSpec& spec, const std::string& host,
                                                       uint16_t port, std::stop_token cancel) {
  const auto limits = IoLimits{std::chrono::steady_clock::now() + options_.connect_timeout, cancel};
  ASSIGN_OR_RETURN(auto tcp, TcpStream::connect(HostPort{host, port}, limits));
  std::unique_ptr<ByteStream> stream = std::move(tcp);
  if (options_.wrap) stream = options_.wrap(std::move(stream));
  TRY(offer_handshake(*stream, options_.token, spec.id, limits));
  if (options_.recorder != nullptr) stream = options_.recorder->record(std::move(stream), spec);
  return Outgoing::open(std::move(stream), spec, options_, std::move(cancel));
}

}  // namespace isthmus::handoff
