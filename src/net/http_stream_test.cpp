// SPDX-License-Identifier: Apache-2.0
// Streamed replies, disconnects and stop() of the HTTP server.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "net/http_server.h"
#include "net/http_test_util.h"

namespace isthmus {
namespace {

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

bool wait_for_stop(const std::stop_token& token, int64_t ms) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  return changed.wait_for(lock, token, std::chrono::milliseconds(ms), [&] { return token.stop_requested(); });
}

TEST(HttpStream, EachWriteArrivesBeforeTheNextIsMade) {
  Event seen_first;
  Event seen_second;
  const auto server = start_server({}, [&](const HttpRequest&, HttpResponder& reply) {
    EXPECT_TRUE(reply.begin_stream(200, "text/event-stream", {{"X-Extra", "1"}}).ok());
    EXPECT_TRUE(reply.write("data: 1\n\n").ok());
    EXPECT_TRUE(seen_first.wait());
    EXPECT_TRUE(reply.write("").ok());  // must not end the body
    EXPECT_TRUE(reply.write("data: 2\n\n").ok());
    EXPECT_TRUE(seen_second.wait());
    EXPECT_TRUE(reply.end().ok());
    EXPECT_EQ(reply.write("late").code(), Code::kInternal);
    EXPECT_EQ(reply.send(200, "", "").code(), Code::kInternal);
  });
  RawClient client(server->port());
  ASSERT_TRUE(client.send(kGet).ok());
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_NE(head.find("Transfer-Encoding: chunked\r\n"), std::string::npos);
  EXPECT_NE(head.find("X-Extra: 1\r\n"), std::string::npos);
  EXPECT_EQ(client.read_until("\n\n\r\n"), "9\r\ndata: 1\n\n\r\n");
  seen_first.set();
  EXPECT_EQ(client.read_until("\n\n\r\n"), "9\r\ndata: 2\n\n\r\n");
  seen_second.set();
  EXPECT_EQ(client.read_until("0\r\n\r\n"), "0\r\n\r\n");
  ASSERT_TRUE(client.send(kGet).ok());  // the connection is still good; both events are already set
  EXPECT_EQ(status_of(client.read_until("0\r\n\r\n")), 200);
}

TEST(HttpStream, Http10GetsAPlainBodyThatEndsWithTheConnection) {
  const auto server = start_server({}, [](const HttpRequest&, HttpResponder& reply) {
    EXPECT_TRUE(reply.begin_stream(200, "text/plain").ok());
    EXPECT_TRUE(reply.write("abc").ok());
    EXPECT_TRUE(reply.write("def").ok());
    EXPECT_TRUE(reply.end().ok());
  });
  RawClient client(server->port());
  ASSERT_TRUE(client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").ok());
  const std::string reply = client.read_to_end();
  EXPECT_EQ(reply.find("chunked"), std::string::npos);
  EXPECT_TRUE(reply.ends_with("\r\n\r\nabcdef")) << reply;
}

TEST(HttpStream, HeartbeatThreadMayWriteBetween) {
  constexpr int kWrites = 200;
  const auto server = start_server({}, [&](const HttpRequest&, HttpResponder& reply) {
    EXPECT_TRUE(reply.begin_stream(200, "text/event-stream").ok());
    std::thread heartbeat([&] {
      for (int i = 0; i < kWrites; ++i) EXPECT_TRUE(reply.write(": beat\n\n").ok());
    });
    for (int i = 0; i < kWrites; ++i) EXPECT_TRUE(reply.write("data: " + std::to_string(i) + "\n\n").ok());
    heartbeat.join();
    EXPECT_TRUE(reply.end().ok());
  });
  RawClient client(server->port());
  ASSERT_TRUE(client.send(kGet).ok());
  const std::string all = client.read_until("0\r\n\r\n");
  size_t at = 0;
  for (int i = 0; i < kWrites; ++i) {
    at = all.find("data: " + std::to_string(i) + "\n\n\r\n", at);
    ASSERT_NE(at, std::string::npos) << i;
  }
  int beats = 0;
  for (at = all.find("8\r\n: beat\n\n\r\n"); at != std::string::npos;
       at = all.find("8\r\n: beat\n\n\r\n", at + 1))
    ++beats;
  EXPECT_EQ(beats, kWrites);
}

TEST(HttpStream, LargeBodyArrivesWhole) {
  std::string body(5 << 20, ' ');
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>('a' + i % 23);
  const auto server = start_server({}, [&](const HttpRequest&, HttpResponder& reply) {
    EXPECT_TRUE(reply.send(200, "application/octet-stream", body).ok());
  });
  RawClient client(server->port());
  ASSERT_TRUE(client.send(kGet).ok());
  EXPECT_TRUE(client.read_reply().ends_with("\r\n\r\n" + body));
}

TEST(HttpStream, DisconnectFiresTheTokenWhileTheHandlerBlocks) {
  Event entered;
  Event done;
  std::atomic<bool> fired{false};
  const auto server = start_server({}, [&](const HttpRequest& request, HttpResponder& reply) {
    entered.set();
    fired = wait_for_stop(request.cancelled, 10'000);
    EXPECT_EQ(reply.send(200, "text/plain", "nobody hears this").code(), Code::kCancelled);
    done.set();
  });
  RawClient client(server->port());
  ASSERT_TRUE(client.send(kGet).ok());
  ASSERT_TRUE(entered.wait());
  client.close();
  EXPECT_TRUE(done.wait(1'000));
  EXPECT_TRUE(fired);
}

TEST(HttpStream, DisconnectInAStreamGivesCancelledWrites) {
  Event done;
  const auto server = start_server({}, [&](const HttpRequest& request, HttpResponder& reply) {
    EXPECT_TRUE(reply.begin_stream(200, "text/event-stream").ok());
    Status status;
    while (status.ok()) status = reply.write("data: x\n\n");
    EXPECT_EQ(status.code(), Code::kCancelled);
    EXPECT_EQ(reply.end().code(), Code::kCancelled);
    EXPECT_TRUE(wait_for_stop(request.cancelled, 1'000));
    done.set();
  });
  RawClient client(server->port());
  ASSERT_TRUE(client.send(kGet).ok());
  client.read_until("data: x");
  client.close();
  EXPECT_TRUE(done.wait());
}

TEST(HttpStream, ClientThatTakesNothingTimesOut) {
  HttpServerOptions options;
  options.write_timeout_ms = 100;
  Event done;
  const auto server = start_server(options, [&](const HttpRequest&, HttpResponder& reply) {
    EXPECT_TRUE(reply.begin_stream(200, "text/plain").ok());
    const std::string piece(1 << 20, 'x');
    Status status;
    while (status.ok()) status = reply.write(piece);  // ends when the kernel's buffers are full
    EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
    done.set();
  });
  RawClient client(server->port());
  ASSERT_TRUE(client.send(kGet).ok());
  EXPECT_TRUE(done.wait());
}

TEST(HttpStream, HandlersThatMisbehave) {
  const auto server = start_server({}, [](const HttpRequest& request, HttpResponder& reply) {
    if (request.path == "/throws") throw std::runtime_error("out of cheese");
    if (request.path == "/cut") {
      EXPECT_TRUE(reply.begin_stream(200, "text/plain").ok());
      EXPECT_TRUE(reply.write("part").ok());
    }
    if (request.path == "/inject") {
      EXPECT_EQ(reply.send(200, "text/plain", "", {{"A", "b\r\nC: d"}}).code(), Code::kInvalidArgument);
      EXPECT_EQ(reply.send(200, "text/plain\r\nC: d", "").code(), Code::kInvalidArgument);
      EXPECT_TRUE(reply.send(204, "", "").ok());
    }
  });
  struct Row {
    const char* path;
    int status;
    const char* end;
  };
  for (const Row& row :
       {Row{"/throws", 500, "\"code\":\"internal\"}}\n"}, Row{"/silent", 500, "\"code\":\"internal\"}}\n"},
        Row{"/cut", 200, "4\r\npart\r\n"}, Row{"/inject", 204, "\r\n\r\n"}}) {
    RawClient client(server->port());
    ASSERT_TRUE(
        client.send("GET " + std::string(row.path) + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .ok());
    const std::string reply = client.read_to_end();
    EXPECT_EQ(status_of(reply), row.status) << row.path;
    EXPECT_TRUE(reply.ends_with(row.end)) << reply;
    EXPECT_EQ(reply.find("C: d"), std::string::npos);
  }
}

TEST(HttpStream, StopCancelsABlockedHandlerWhichMayStillAnswer) {
  Event entered;
  const auto server = start_server({}, [&](const HttpRequest& request, HttpResponder& reply) {
    entered.set();
    EXPECT_TRUE(wait_for_stop(request.cancelled, 10'000));
    EXPECT_TRUE(reply.send(503, "text/plain", "stopping").ok());
  });
  RawClient client(server->port());
  RawClient idle(server->port());
  ASSERT_TRUE(client.send(kGet).ok());
  ASSERT_TRUE(entered.wait());
  const uint16_t port = server->port();
  server->stop();
  EXPECT_TRUE(client.read_to_end().ends_with("stopping"));
  EXPECT_EQ(idle.read_to_end(), "");
  EXPECT_FALSE(TcpStream::connect({"127.0.0.1", port}, IoLimits::within_ms(1'000)).ok());
  server->stop();  // twice is fine
}

TEST(HttpStream, StopDoesNotWaitForAClientThatTakesNothing) {
  HttpServerOptions options;
  options.stop_grace_ms = 50;
  Event entered;
  const auto server = start_server(options, [&](const HttpRequest&, HttpResponder& reply) {
    EXPECT_TRUE(reply.begin_stream(200, "text/plain").ok());
    entered.set();
    const std::string piece(1 << 20, 'x');
    while (reply.write(piece).ok()) {
    }
  });
  RawClient client(server->port());
  ASSERT_TRUE(client.send(kGet).ok());
  ASSERT_TRUE(entered.wait());
  const auto before = std::chrono::steady_clock::now();
  server->stop();
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(10));
}

}  // namespace
}  // namespace isthmus
