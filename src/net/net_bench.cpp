// SPDX-License-Identifier: Apache-2.0
// A request's way from bytes to header fields and body. Counted by scripts/instruction-counts.
#include <string>

#include "base/counted_bench.h"
#include "base/status.h"
#include "net/http_parse.h"

namespace isthmus {
namespace {

// As a client library sends it; the body comes in pieces of one TCP segment.
void parse_http_request(benchmark::State& state) {
  const std::string body(8'000, 'x');
  const std::string message =
      "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:8012\r\nAccept-Encoding: gzip, deflate\r\n"
      "Connection: keep-alive\r\nAccept: application/json\r\nContent-Type: application/json\r\n"
      "User-Agent: OpenAI/Python 1.0\r\nX-Stainless-Lang: python\r\nAuthorization: Bearer none\r\n"
      "Content-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body;
  counted_iterations(state, [&] {
    HttpRequestParser parser(32u << 10, 16u << 20);
    std::string_view rest = message;
    while (!rest.empty()) {
      const size_t took = parser.feed(rest.substr(0, 1'400));
      ISTHMUS_CHECK(took > 0);
      rest.remove_prefix(took);
    }
    ISTHMUS_CHECK(parser.done() && parser.take().body.size() == body.size());
  });
}
BENCHMARK(parse_http_request)->Iterations(100);

}  // namespace
}  // namespace isthmus
