// SPDX-License-Identifier: Apache-2.0
#include "net/tcp.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <vector>

#include "net/faulty_stream.h"

namespace isthmus {
namespace {

using Kind = StreamFault::Kind;
using Direction = StreamFault::Direction;

IoLimits soon() {
  return IoLimits::within_ms(10'000);
}

struct Pair {
  std::unique_ptr<TcpStream> client;
  std::unique_ptr<TcpStream> server;
};

Pair connected_pair() {
  auto listener = TcpListener::bind();
  EXPECT_TRUE(listener.ok()) << listener.status().to_string();
  auto client = TcpStream::connect({"127.0.0.1", (*listener)->port()}, soon());
  EXPECT_TRUE(client.ok()) << client.status().to_string();
  auto server = (*listener)->accept(soon());
  EXPECT_TRUE(server.ok()) << server.status().to_string();
  return {client.take(), server.take()};
}

std::vector<std::byte> pattern(size_t size) {
  std::vector<std::byte> out(size);
  for (size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(i * 7 + i / 251);
  return out;
}

Status write_one(ByteStream& stream, ConstBytes bytes, const IoLimits& limits) {
  return stream.write_all({&bytes, 1}, limits);
}

TEST(Tcp, GatherWriteArrivesInOrder) {
  Pair pair = connected_pair();
  const std::vector<std::byte> data = pattern(9 << 20);  // more than the socket buffers hold
  std::vector<ConstBytes> parts = {{}};
  for (size_t at = 0, step = 1; at < data.size(); at += step, step = step * 3 % 70'001 + 1) {
    step = std::min(step, data.size() - at);
    parts.push_back(ConstBytes(data).subspan(at, step));
  }
  auto written = std::async(std::launch::async, [&] { return pair.client->write_all(parts, soon()); });
  std::vector<std::byte> got(data.size());
  EXPECT_TRUE(pair.server->read_exact(got, soon()).ok());
  EXPECT_TRUE(written.get().ok());
  EXPECT_EQ(got, data);
  EXPECT_EQ(pair.server->peer().host, "127.0.0.1");
}

TEST(Tcp, EndIsZeroForReadSomeAndAnErrorForReadExact) {
  Pair pair = connected_pair();
  ASSERT_TRUE(write_one(*pair.client, pattern(3), soon()).ok());
  ASSERT_TRUE(pair.client->shutdown_write().ok());
  std::vector<std::byte> got(8);
  const Status cut = pair.server->read_exact(got, soon());
  EXPECT_EQ(cut.code(), Code::kUnavailable);
  EXPECT_NE(cut.message().find("after 3"), std::string::npos) << cut.message();
  EXPECT_EQ(*pair.server->read_some(got, soon()), 0u);
  // The other direction still works after the half-close.
  ASSERT_TRUE(write_one(*pair.server, pattern(2), soon()).ok());
  EXPECT_TRUE(pair.client->read_exact(std::span(got).first(2), soon()).ok());
}

TEST(Tcp, DeadlineEndsReadAndWrite) {
  Pair pair = connected_pair();
  std::vector<std::byte> got(1);
  EXPECT_EQ(pair.server->read_exact(got, IoLimits::within_ms(20)).code(), Code::kDeadlineExceeded);
  const std::vector<std::byte> big = pattern(24 << 20);
  EXPECT_EQ(write_one(*pair.client, big, IoLimits::within_ms(50)).code(), Code::kDeadlineExceeded);
}

TEST(Tcp, StopTokenEndsReadWriteAndAcceptAndOnlyThatOperation) {
  Pair pair = connected_pair();
  std::stop_source stop;
  std::vector<std::byte> got(1);
  auto read = std::async(std::launch::async, [&] {
    return pair.server->read_exact(got, IoLimits::within_ms(30'000, stop.get_token()));
  });
  const std::vector<std::byte> big = pattern(24 << 20);
  auto write = std::async(std::launch::async, [&] {
    return write_one(*pair.server, big, IoLimits::within_ms(30'000, stop.get_token()));
  });
  auto listener = TcpListener::bind().take();
  auto accept = std::async(std::launch::async, [&] {
    return listener->accept(IoLimits::within_ms(30'000, stop.get_token())).status();
  });
  stop.request_stop();
  EXPECT_EQ(read.get().code(), Code::kCancelled);
  EXPECT_EQ(write.get().code(), Code::kCancelled);
  EXPECT_EQ(accept.get().code(), Code::kCancelled);
  // A later read under another token works; the earlier wake-up has left nothing behind.
  ASSERT_TRUE(write_one(*pair.client, pattern(1), soon()).ok());
  EXPECT_TRUE(pair.server->read_exact(got, soon()).ok());
}

TEST(Tcp, CloseFromAnotherThreadWakesReader) {
  Pair pair = connected_pair();
  std::promise<void> started;
  std::vector<std::byte> got(1);
  auto read = std::async(std::launch::async, [&] {
    started.set_value();
    return pair.server->read_exact(got, soon());
  });
  started.get_future().wait();
  pair.server->close();
  const Code code = read.get().code();
  EXPECT_TRUE(code == Code::kCancelled || code == Code::kUnavailable) << code_name(code);
  EXPECT_EQ(pair.server->read_exact(got, soon()).code(), Code::kCancelled);
  EXPECT_EQ(pair.client->read_exact(got, soon()).code(), Code::kUnavailable);
}

TEST(Tcp, ListenerCloseWakesAccept) {
  auto listener = TcpListener::bind().take();
  auto accept = std::async(std::launch::async, [&] { return listener->accept(soon()).status(); });
  listener->close();
  EXPECT_EQ(accept.get().code(), Code::kCancelled);
}

TEST(Tcp, ConnectAndBindErrors) {
  uint16_t free_port = 0;
  {
    const auto listener = TcpListener::bind().take();
    free_port = listener->port();
    EXPECT_EQ(TcpListener::bind("127.0.0.1", free_port).status().code(), Code::kUnavailable);
  }
  const auto refused = TcpStream::connect({"127.0.0.1", free_port}, soon());
  EXPECT_EQ(refused.status().code(), Code::kUnavailable) << refused.status().to_string();
  EXPECT_EQ(TcpListener::bind("not-an-address").status().code(), Code::kUnavailable);
}

// Writes 100 bytes through the faults and reads them; what the reader sees decides.
struct FaultRow {
  std::vector<StreamFault> faults;
  Code write;
  size_t readable;  // bytes that arrive intact or corrupted
  int bad_offset;   // of a corrupted byte, -1 none
};

TEST(FaultyStream, WriteFaults) {
  const FaultRow rows[] = {
      {{}, Code::kOk, 100, -1},
      {{{Kind::kShort, Direction::kWrite, 0, 1}}, Code::kOk, 100, -1},
      {{{Kind::kShort, Direction::kWrite, 10, 7}}, Code::kOk, 100, -1},
      {{{Kind::kCorrupt, Direction::kWrite, 42, 0x80}}, Code::kOk, 100, 42},
      {{{Kind::kShort, Direction::kWrite, 0, 3}, {Kind::kCorrupt, Direction::kWrite, 99, 1}},
       Code::kOk,
       100,
       99},
      {{{Kind::kCut, Direction::kWrite, 0, 0}}, Code::kUnavailable, 0, -1},
      {{{Kind::kCut, Direction::kWrite, 33, 0}}, Code::kUnavailable, 33, -1},
      {{{Kind::kStall, Direction::kWrite, 50, 0}}, Code::kDeadlineExceeded, 50, -1},
      {{{Kind::kCut, Direction::kRead, 0, 0}}, Code::kOk, 100, -1},
  };
  const std::vector<std::byte> data = pattern(100);
  for (const FaultRow& row : rows) {
    Pair pair = connected_pair();
    FaultyStream faulty(std::move(pair.client), row.faults);
    const ConstBytes parts[] = {ConstBytes(data).first(40), ConstBytes(data).subspan(40)};
    EXPECT_EQ(faulty.write_all(parts, IoLimits::within_ms(row.write == Code::kDeadlineExceeded ? 30 : 10'000))
                  .code(),
              row.write);
    std::vector<std::byte> got(row.readable);
    ASSERT_TRUE(pair.server->read_exact(got, soon()).ok());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i] != data[i], static_cast<int>(i) == row.bad_offset) << i;
    }
    faulty.close();
    std::vector<std::byte> more(1);
    EXPECT_EQ(*pair.server->read_some(more, soon()), 0u);  // nothing behind the fault got through
  }
}

TEST(FaultyStream, ReadFaults) {
  Pair pair = connected_pair();
  const std::vector<std::byte> data = pattern(100);
  ASSERT_TRUE(write_one(*pair.server, data, soon()).ok());
  FaultyStream faulty(std::move(pair.client), {{Kind::kShort, Direction::kRead, 0, 9},
                                               {Kind::kCorrupt, Direction::kRead, 5, 0xff},
                                               {Kind::kCut, Direction::kRead, 60, 0}});
  std::vector<std::byte> got(60);
  ASSERT_TRUE(faulty.read_exact(got, soon()).ok());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i] != data[i], i == 5) << i;
  EXPECT_EQ(faulty.read_exact(got, soon()).code(), Code::kUnavailable);
}

TEST(FaultyStream, StallEndsByStopAndByClose) {
  for (const bool by_stop : {true, false}) {
    Pair pair = connected_pair();
    FaultyStream faulty(std::move(pair.client), {{Kind::kStall, Direction::kRead, 0, 0}});
    std::stop_source stop;
    auto read = std::async(std::launch::async, [&] {
      std::vector<std::byte> got(1);
      return faulty.read_exact(got, {IoLimits().deadline, stop.get_token()}).code();
    });
    if (by_stop) {
      stop.request_stop();
    } else {
      faulty.close();
    }
    EXPECT_EQ(read.get(), Code::kCancelled);
  }
}

}  // namespace
}  // namespace isthmus
