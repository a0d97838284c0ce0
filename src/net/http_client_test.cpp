// SPDX-License-Identifier: Apache-2.0
#include "net/http_client.h"

#include <gtest/gtest.h>

#include <thread>

#include "net/http_test_util.h"

namespace isthmus {
namespace {

using std::chrono::steady_clock;

Url url_of(uint16_t port, const std::string& target = "/") {
  return *parse_url("http://127.0.0.1:" + std::to_string(port) + target);
}

HttpClient make_client(const HttpClientOptions& options = {}) {
  auto client = HttpClient::create(options);
  EXPECT_TRUE(client.ok()) << client.status().to_string();
  return client.take();
}

// A server of one connection that sends fixed bytes, whatever it is asked, and then closes or stays silent.
class CannedServer {
 public:
  CannedServer(std::string bytes, bool close_after)
      : listener_(TcpListener::bind().take()),
        thread_([this, bytes = std::move(bytes), close_after](const std::stop_token& stop) {
          auto stream = listener_->accept({IoLimits().deadline, stop});
          if (!stream.ok()) return;
          std::byte buffer[4096];
          if (!(*stream)->read_some(buffer, {IoLimits().deadline, stop}).ok()) return;
          const ConstBytes part = std::as_bytes(std::span(bytes));
          if (!(*stream)->write_all({&part, 1}, {IoLimits().deadline, stop}).ok()) return;
          sent_.set();
          if (close_after) {
            EXPECT_TRUE((*stream)->shutdown_write().ok());
          }
          while (true) {
            const auto more = (*stream)->read_some(buffer, {IoLimits().deadline, stop});
            if (!more.ok() || *more == 0) return;
          }
        }) {}
  uint16_t port() const { return listener_->port(); }
  Event& sent() { return sent_; }

 private:
  std::unique_ptr<TcpListener> listener_;
  Event sent_;
  std::jthread thread_;
};

TEST(HttpClient, RoundTripWithServer) {
  const auto server = start_server({}, [](const HttpRequest& request, HttpResponder& reply) {
    EXPECT_EQ(request.headers.get("x-a"), "b");
    EXPECT_EQ(request.headers.get("CONNECTION"), "close");
    const std::string text =
        request.method + " " + request.target + " " + std::to_string(request.body.size());
    EXPECT_TRUE(reply.send(request.path == "/missing" ? 404 : 200, "text/plain", text, {{"X-B", "c"}}).ok());
  });
  const HttpClient client = make_client();
  HttpCall call{url_of(server->port(), "/p?q=1"), "POST", {{"X-A", "b"}}, std::string(300'000, 'z'), {}, {}};
  Result<HttpResponse> response = client.request(call);
  ASSERT_TRUE(response.ok()) << response.status().to_string();
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->body, "POST /p?q=1 300000");
  EXPECT_EQ(response->headers.get("x-b"), "c");
  call.url = url_of(server->port(), "/missing");
  EXPECT_EQ(client.request(call)->status, 404);
  call.method = "HEAD";
  call.body.clear();
  response = client.request(call);
  ASSERT_TRUE(response.ok()) << response.status().to_string();
  EXPECT_EQ(response->body, "");
  EXPECT_EQ(response->headers.get("content-length"), "15");
}

TEST(HttpClient, LocalhostIsResolved) {
  const auto server = start_server({}, [](const HttpRequest&, HttpResponder& reply) {
    EXPECT_TRUE(reply.send(200, "text/plain", "here").ok());
  });
  HttpCall call;
  call.url = *parse_url("http://localhost:" + std::to_string(server->port()));
  const auto response = make_client().request(call);
  ASSERT_TRUE(response.ok()) << response.status().to_string();
  EXPECT_EQ(response->body, "here");
}

TEST(HttpClient, StreamDeliversPiecesWhileTheServerWaits) {
  Event got_first;
  const auto server = start_server({}, [&](const HttpRequest&, HttpResponder& reply) {
    EXPECT_TRUE(reply.begin_stream(200, "text/event-stream").ok());
    EXPECT_TRUE(reply.write("first").ok());
    EXPECT_TRUE(got_first.wait());
    EXPECT_TRUE(reply.write("second").ok());
    EXPECT_TRUE(reply.end().ok());
  });
  std::string all;
  int heads = 0;
  HttpCall call;
  call.url = url_of(server->port());
  const auto response = make_client().stream(
      call,
      [&](const HttpResponse& head) {
        ++heads;
        EXPECT_EQ(head.headers.get("content-type"), "text/event-stream");
        return head.status == 200;
      },
      [&](std::string_view bytes) {
        all += bytes;
        if (all == "first") got_first.set();
        return true;
      });
  ASSERT_TRUE(response.ok()) << response.status().to_string();
  EXPECT_TRUE(response->complete);
  EXPECT_EQ(heads, 1);
  EXPECT_EQ(all, "firstsecond");
}

TEST(HttpClient, CallbackEndsTheCallAndTheServerSeesIt) {
  Event gone;
  const auto server = start_server({}, [&](const HttpRequest&, HttpResponder& reply) {
    EXPECT_TRUE(reply.begin_stream(200, "text/plain").ok());
    while (reply.write("x").ok()) {
    }
    gone.set();
  });
  HttpCall call;
  call.url = url_of(server->port());
  const auto response = make_client().stream(call, nullptr, [](std::string_view) { return false; });
  ASSERT_TRUE(response.ok()) << response.status().to_string();
  EXPECT_FALSE(response->complete);
  EXPECT_TRUE(gone.wait(1'000));
}

TEST(HttpClient, StopTokenEndsACallAtOnce) {
  std::stop_source stop;
  Event entered;
  Event gone;
  const auto server = start_server({}, [&](const HttpRequest& request, HttpResponder&) {
    const std::stop_callback on_cancel(request.cancelled, [&] { gone.set(); });
    entered.set();
    EXPECT_TRUE(gone.wait());
  });
  steady_clock::time_point stopped;
  std::thread stopper([&] {
    EXPECT_TRUE(entered.wait());
    stopped = steady_clock::now();
    stop.request_stop();
  });
  HttpCall call;
  call.url = url_of(server->port());
  call.stop = stop.get_token();
  const auto response = make_client().request(call);
  const auto returned = steady_clock::now();
  stopper.join();
  EXPECT_EQ(response.status().code(), Code::kCancelled);
  EXPECT_LT(returned - stopped, std::chrono::milliseconds(500));             // usually under 1 ms
  EXPECT_EQ(make_client().request(call).status().code(), Code::kCancelled);  // stopped before it began
}

TEST(HttpClient, Timeouts) {
  CannedServer silent("", false);
  HttpCall call;
  call.url = url_of(silent.port());
  call.timeouts.idle_ms = 50;
  const auto idle = make_client().request(call);
  EXPECT_EQ(idle.status().code(), Code::kDeadlineExceeded) << idle.status().to_string();

  // Bytes keep coming, so only the total time ends it.
  const auto server = start_server({}, [](const HttpRequest&, HttpResponder& reply) {
    EXPECT_TRUE(reply.begin_stream(200, "text/plain").ok());
    while (reply.write("x").ok()) {
    }
  });
  call.url = url_of(server->port());
  call.timeouts = {5'000, 5'000, 100};
  EXPECT_EQ(make_client().request(call).status().code(), Code::kDeadlineExceeded);
}

TEST(HttpClient, RepliesTable) {
  struct Row {
    std::string bytes;
    Code code;
    std::string body;
  };
  const Row rows[] = {
      {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", Code::kOk, "ab"},
      {"HTTP/1.1 200 OK\r\n\r\nto the end", Code::kOk, "to the end"},
      {"HTTP/1.0 200 \r\n\r\nx", Code::kOk, "x"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", Code::kOk,
       "abc"},
      {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: "
       "1\r\n\r\nz",
       Code::kOk, "z"},
      {"HTTP/1.1 204 No Content\r\n\r\n", Code::kOk, ""},
      {"", Code::kUnavailable, ""},
      {"HTTP/1.1 200 OK\r\nContent-Le", Code::kUnavailable, ""},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", Code::kUnavailable, ""},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", Code::kUnavailable, ""},
      {"SSH-2.0-OpenSSH\r\n\r\n", Code::kCorrupt, ""},
      {"HTTP/1.1 20x OK\r\n\r\n", Code::kCorrupt, ""},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxx\r\n", Code::kCorrupt, ""},
      {"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n", Code::kResourceExhausted, ""},
      {"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n", Code::kResourceExhausted, ""},
      {"HTTP/1.1 200 OK\r\n\r\n" + std::string(1001, 'x'), Code::kResourceExhausted, ""},
      {"HTTP/1.1 200 OK\r\nA: " + std::string(3000, 'x') + "\r\n\r\n", Code::kResourceExhausted, ""},
  };
  HttpClientOptions options;
  options.max_response_bytes = 1000;
  options.max_header_bytes = 2000;
  const HttpClient client = make_client(options);
  for (const Row& row : rows) {
    CannedServer server(row.bytes, true);
    HttpCall call;
    call.url = url_of(server.port());
    const auto response = client.request(call);
    EXPECT_EQ(response.status().code(), row.code) << row.bytes << "\n" << response.status().to_string();
    if (response.ok()) {
      EXPECT_EQ(response->body, row.body) << row.bytes;
    }
  }
}

TEST(HttpClient, RefusesBadCallsAndReportsNoServer) {
  const HttpClient client = make_client();
  uint16_t free_port = 0;
  { free_port = TcpListener::bind().take()->port(); }
  HttpCall call;
  call.url = url_of(free_port);
  EXPECT_EQ(client.request(call).status().code(), Code::kUnavailable);
  call.method = "GET / HTTP/1.1\r\nX:";
  EXPECT_EQ(client.request(call).status().code(), Code::kInvalidArgument);
  call.method = "GET";
  call.headers = {{"A", "b\r\nC: d"}};
  EXPECT_EQ(client.request(call).status().code(), Code::kInvalidArgument);
  call.headers = {};
  call.url.path = "/ HTTP/1.1\r\nX: y";
  EXPECT_EQ(client.request(call).status().code(), Code::kInvalidArgument);
  call.url = *parse_url("http://nosuchhost.invalid/");
  EXPECT_EQ(client.request(call).status().code(), Code::kUnavailable);
}

TEST(HttpClient, AnEarlyRefusalIsReadBeforeTheBodyIsSent) {
  HttpServerOptions options;
  options.max_body_bytes = 10;
  const auto server = start_server(options, [](const HttpRequest&, HttpResponder&) {});
  HttpCall call{url_of(server->port()), "POST", {}, std::string(8 << 20, 'x'), {}, {}};
  const auto response = make_client().request(call);
  ASSERT_TRUE(response.ok()) << response.status().to_string();
  EXPECT_EQ(response->status, 413);
}

}  // namespace
}  // namespace isthmus
