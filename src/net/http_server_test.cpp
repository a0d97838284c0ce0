// SPDX-License-Identifier: Apache-2.0
#include "net/http_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "net/http_test_util.h"

namespace isthmus {
namespace {

// Answers with what it saw.
void echo(const HttpRequest& request, HttpResponder& reply) {
  const std::string text =
      request.method + " " + request.path + " ?" + request.query + " [" + request.body + "]";
  EXPECT_TRUE(request.is_loopback);
  EXPECT_TRUE(reply.send(200, "text/plain", text).ok());
}

// max_header_bytes 1024, max_body_bytes 64.
struct RawRow {
  std::string bytes;
  int status;
  std::string body;  // expected in the reply
};

std::vector<RawRow> raw_rows() {
  const std::string host = "Host: x\r\n";
  return {
      {"GET / HTTP/1.1\r\n" + host + "\r\n", 200, "GET / ? []"},
      {"GET /a/b?c=d&e HTTP/1.1\r\n" + host + "\r\n", 200, "GET /a/b ?c=d&e []"},
      {"GET /x HTTP/1.0\r\n\r\n", 200, "GET /x ? []"},
      {"OPTIONS * HTTP/1.1\r\n" + host + "\r\n", 200, "OPTIONS * ? []"},
      {"BREW /x HTTP/1.1\r\n" + host + "\r\n", 200, "BREW /x ? []"},
      {"POST /p HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\nabc", 200, "POST /p ? [abc]"},
      {"POST /p HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n",
       200, "[abc]"},
      {"POST /p HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: v\r\n\r\n",
       200, "[abc]"},
      {"POST /p HTTP/1.1\r\n" + host + "Content-Length: 64\r\n\r\n" + std::string(64, 'z'), 200,
       std::string(64, 'z')},
      {"\r\n\r\n", 400, ""},
      {"garbage\r\n\r\n", 400, ""},
      {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + "\r\n\r\n", 400, ""},
      {"GET / HTTP/1.1\r\n\r\n", 400, "Host"},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "Host"},
      {"GET x HTTP/1.1\r\n" + host + "\r\n", 400, ""},
      {"GET http://x/ HTTP/1.1\r\n" + host + "\r\n", 400, ""},
      {"GET /a b HTTP/1.1\r\n" + host + "\r\n", 400, ""},
      {"GET / HTTP/2.0\r\n" + host + "\r\n", 400, "version"},
      {"GET / HTTP/x\r\n" + host + "\r\n", 400, ""},
      {"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400, ""},
      {"GET / HTTP/1.1\r\n" + host + "no colon\r\n\r\n", 400, ""},
      {"GET / HTTP/1.1\r\n" + host + std::string("A: b\0c\r\n\r\n", 10), 400, ""},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\n", 400, ""},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: 1x\r\n\r\n", 400, ""},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: 99999999999999999999999\r\n\r\n", 400, ""},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, ""},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
       ""},
      {"POST / HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, ""},
      {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501, ""},
      {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, ""},
      {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", 400, ""},
      {"POST / HTTP/1.1\r\n" + host + "Expect: magic\r\nContent-Length: 1\r\n\r\na", 417, ""},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: 65\r\n\r\n" + std::string(65, 'z'), 413, ""},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: 1000000000000\r\n\r\n", 413, ""},
      {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n41\r\n" + std::string(65, 'z') +
           "\r\n0\r\n\r\n",
       413, ""},
      {"GET / HTTP/1.1\r\n" + host + "A: " + std::string(2000, 'a') + "\r\n\r\n", 431, ""},
      {"GET /" + std::string(2000, 'a'), 431, ""},
  };
}

TEST(HttpServer, RawRequestsTable) {
  HttpServerOptions options;
  options.max_header_bytes = 1024;
  options.max_body_bytes = 64;
  const auto server = start_server(options, echo);
  for (const RawRow& row : raw_rows()) {
    RawClient client(server->port());
    ASSERT_TRUE(client.send(row.bytes).ok());
    const std::string reply = client.read_reply();
    EXPECT_EQ(status_of(reply), row.status) << row.bytes << "\n" << reply;
    EXPECT_NE(reply.find(row.body), std::string::npos) << row.bytes << "\n" << reply;
    if (row.status >= 400) {
      EXPECT_NE(reply.find("Connection: close"), std::string::npos) << row.bytes;
      EXPECT_EQ(client.read_to_end(), "") << row.bytes;
    }
  }
  RawClient after(server->port());
  ASSERT_TRUE(after.send("GET /alive HTTP/1.1\r\nHost: x\r\n\r\n").ok());
  EXPECT_EQ(status_of(after.read_reply()), 200);
}

TEST(HttpServer, TooLargeBodyIsToldEvenWhileTheClientKeepsSending) {
  HttpServerOptions options;
  options.max_body_bytes = 1000;
  const auto server = start_server(options, echo);
  RawClient client(server->port());
  ASSERT_TRUE(client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n").ok());
  ASSERT_TRUE(client.send(std::string(3'000'000, 'z')).ok());
  EXPECT_EQ(status_of(client.read_reply()), 413);
}

TEST(HttpServer, KeepAliveAndPipelining) {
  const auto server = start_server({}, echo);
  RawClient client(server->port());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.send("GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\n\r\n").ok());
    EXPECT_NE(client.read_reply().find("GET /" + std::to_string(i)), std::string::npos);
  }
  std::string burst;
  for (int i = 0; i < 20; ++i) {
    burst += "POST /" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody";
  }
  ASSERT_TRUE(client.send(burst + "GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok());
  for (int i = 0; i < 20; ++i) {
    EXPECT_NE(client.read_reply().find("POST /" + std::to_string(i) + " ? [body]"), std::string::npos) << i;
  }
  const std::string last = client.read_to_end();
  EXPECT_NE(last.find("Connection: close"), std::string::npos);
  EXPECT_NE(last.find("GET /last"), std::string::npos);
}

TEST(HttpServer, BytesSentWhileTheHandlerRunsAreKept) {
  Event entered;
  Event release;
  const auto server = start_server({}, [&](const HttpRequest& request, HttpResponder& reply) {
    if (request.path == "/first") {
      entered.set();
      EXPECT_TRUE(release.wait());
    }
    echo(request, reply);
  });
  RawClient client(server->port());
  ASSERT_TRUE(client.send("GET /first HTTP/1.1\r\nHost: x\r\n\r\n").ok());
  ASSERT_TRUE(entered.wait());
  ASSERT_TRUE(client.send("GET /second HTTP/1.1\r\nHost: x\r\n\r\nGET /thi").ok());
  release.set();
  EXPECT_NE(client.read_reply().find("GET /first"), std::string::npos);
  EXPECT_NE(client.read_reply().find("GET /second"), std::string::npos);
  ASSERT_TRUE(client.send("rd HTTP/1.1\r\nHost: x\r\n\r\n").ok());
  EXPECT_NE(client.read_reply().find("GET /third"), std::string::npos);
}

TEST(HttpServer, HeadHasLengthButNoBody) {
  const auto server = start_server({}, echo);
  RawClient client(server->port());
  ASSERT_TRUE(client.send("HEAD /x HTTP/1.1\r\nHost: x\r\n\r\nGET /y HTTP/1.1\r\nHost: x\r\n\r\n").ok());
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_NE(head.find("Content-Length: 12\r\n"), std::string::npos) << head;
  EXPECT_TRUE(client.read_reply().starts_with("HTTP/1.1 200 OK"));
}

TEST(HttpServer, ExpectContinueIsAnsweredBeforeTheBody) {
  const auto server = start_server({}, echo);
  RawClient client(server->port());
  ASSERT_TRUE(
      client.send("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n").ok());
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  ASSERT_TRUE(client.send("hello").ok());
  EXPECT_NE(client.read_reply().find("[hello]"), std::string::npos);
  // Not asked to continue when the body would be refused anyway.
  RawClient large(server->port());
  ASSERT_TRUE(
      large.send("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n")
          .ok());
  EXPECT_EQ(status_of(large.read_reply()), 413);
}

TEST(HttpServer, SlowHeadersBlockNobodyAndEndIn408) {
  HttpServerOptions options;
  options.max_handlers = 1;
  options.header_timeout_ms = 300;
  const auto server = start_server(options, echo);
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 50; ++i) {
    slow.push_back(std::make_unique<RawClient>(server->port()));
    ASSERT_TRUE(slow.back()->send("GET / HTTP/1.1\r\nHost:").ok());
  }
  RawClient quick(server->port());
  ASSERT_TRUE(quick.send("GET /quick HTTP/1.1\r\nHost: x\r\n\r\n").ok());
  EXPECT_EQ(status_of(quick.read_reply()), 200);
  for (const auto& client : slow) EXPECT_EQ(status_of(client->read_to_end()), 408);
}

TEST(HttpServer, StalledBodyEndsIn408AndIdleConnectionCloses) {
  HttpServerOptions options;
  options.body_timeout_ms = 50;
  options.idle_timeout_ms = 50;
  const auto server = start_server(options, echo);
  RawClient body(server->port());
  ASSERT_TRUE(body.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc").ok());
  EXPECT_EQ(status_of(body.read_to_end()), 408);
  RawClient idle(server->port());
  EXPECT_EQ(idle.read_to_end(), "");
}

TEST(HttpServer, ParallelRequests) {
  const auto server = start_server({}, echo);
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 20; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        RawClient client(server->port());
        const std::string path = "/" + std::to_string(t) + "/" + std::to_string(i);
        if (!client.send("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n").ok()) continue;
        if (client.read_reply().find("GET " + path + " ?") != std::string::npos) ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 100);
}

TEST(HttpServer, HundredBlockedHandlersAtOnce) {
  HttpServerOptions options;
  options.max_handlers = 100;
  std::atomic<int> inside{0};
  Event all;
  const auto server = start_server(options, [&](const HttpRequest& request, HttpResponder& reply) {
    if (++inside == 100) all.set();
    EXPECT_TRUE(all.wait());
    echo(request, reply);
  });
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 100; ++i) {
    clients.push_back(std::make_unique<RawClient>(server->port()));
    ASSERT_TRUE(clients.back()->send("GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\n\r\n").ok());
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_NE(clients[static_cast<size_t>(i)]->read_reply().find("GET /" + std::to_string(i) + " ?"),
              std::string::npos);
  }
}

TEST(HttpServer, FullQueueAndTooManyConnectionsGive503) {
  HttpServerOptions options;
  options.max_handlers = 1;
  options.max_queued_requests = 1;
  options.max_connections = 3;
  Event entered;
  Event release;
  const auto server = start_server(options, [&](const HttpRequest& request, HttpResponder& reply) {
    if (request.path == "/first") {
      entered.set();
      EXPECT_TRUE(release.wait());
    }
    echo(request, reply);
  });
  RawClient first(server->port());
  ASSERT_TRUE(first.send("GET /first HTTP/1.1\r\nHost: x\r\n\r\n").ok());
  ASSERT_TRUE(entered.wait());
  RawClient a(server->port());
  RawClient b(server->port());
  for (RawClient* client : {&a, &b}) ASSERT_TRUE(client->send("GET /next HTTP/1.1\r\nHost: x\r\n\r\n").ok());
  RawClient fourth(server->port());
  EXPECT_EQ(status_of(fourth.read_to_end()), 503);
  release.set();
  EXPECT_EQ(status_of(first.read_reply()), 200);
  // One of the two found the queue full; which one depends on the io threads.
  const int sum = status_of(a.read_reply()) + status_of(b.read_reply());
  EXPECT_EQ(sum, 200 + 503);
}

}  // namespace
}  // namespace isthmus
