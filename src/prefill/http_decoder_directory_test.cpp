// SPDX-License-Identifier: Apache-2.0
#include "prefill/http_decoder_directory.h"

#include <gtest/gtest.h>

#include <atomic>

#include "model/projection_pack.h"
#include "model/test_models.h"
#include "net/http_test_util.h"

namespace isthmus {
namespace {

using namespace test_models;

Checkpoint tiny(const std::filesystem::path& path) {
  return Checkpoint::open(path).take();
}

// What a decode box publishes, on a free port. Changed between requests by the test.
struct FakeDecoder {
  FakeDecoder() {
    const Checkpoint c = tiny(golden("llama_tiny"));
    pack = export_projection(c).take();
    layout = native_layout(c.config().layers, c.config().kv_width(), 64, DType::kBF16).to_json();
    set_fields({{"family", "llama"}, {"projection", projection_digest(c)->hex()}, {"weights", "w1"}});
    http =
        start_server({}, [this](const HttpRequest& request, HttpResponder& reply) { serve(request, reply); });
  }
  void set_fields(const Json& fields) {
    identity = {{"digest", Identity::of(fields).digest.hex()}, {"fields", fields}};
  }
  Digest digest() const { return *Digest::from_hex(identity["digest"].get<std::string>()); }
  Json body() const {
    return {{"identity", identity}, {"instance", instance}, {"layout", layout}, {"handoff_port", port}};
  }
  Peer peer(const std::string& token = "") const {
    return {*parse_url("http://127.0.0.1:" + std::to_string(http->port())), token};
  }
  void serve(const HttpRequest& request, HttpResponder& reply) {
    authorization = std::string(request.headers.get("Authorization").value_or(""));
    if (request.path == "/v1/projection") {
      ++packs_asked;
      (void)reply.send(200, "application/octet-stream", as_text(pack));
    } else {
      ++identities_asked;
      (void)reply.send(200, "application/json", dump_json(override_body.is_null() ? body() : override_body));
    }
  }

  Bytes pack;
  Json layout, identity, override_body;
  int port = 9100;
  std::string instance = "one";
  std::string authorization;
  std::atomic<int> identities_asked = 0, packs_asked = 0;
  std::unique_ptr<HttpServer> http;
};

class ManualClock final : public Clock {
 public:
  MonotonicTime now() const override { return MonotonicTime(Millis(1'000'000 + ms)); }
  std::chrono::system_clock::time_point wall_now() const override { return {}; }
  int64_t ms = 0;
};

std::unique_ptr<HttpDecoderDirectory> directory_of(std::vector<Peer> peers, const Clock& clock) {
  DecoderDirectoryOptions options;
  options.decoders = std::move(peers);
  auto made = HttpDecoderDirectory::create(std::move(options), clock);
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  return made.take();
}

TEST(HttpDecoderDirectory, TellsDecodersOfOneIdentityApart) {
  FakeDecoder one;
  FakeDecoder two;
  two.instance = "two";
  two.port = 9200;
  ManualClock clock;
  const auto directory = directory_of({one.peer(), two.peer()}, clock);
  for (const auto& [instance, port] : {std::pair("two", 9200), {"one", 9100}, {"two", 9200}, {"", 9200}}) {
    const auto info = directory->find(one.digest(), instance);
    ASSERT_TRUE(info.ok()) << info.status().to_string();
    EXPECT_EQ((*info)->handoff_port, port) << instance;
  }
  EXPECT_EQ(directory->find(one.digest(), "three").status().code(), Code::kNotFound);
  EXPECT_EQ(one.packs_asked + two.packs_asked, 1);  // one identity, one pack
}

TEST(HttpDecoderDirectory, FetchesChecksAndKeeps) {
  FakeDecoder decoder;
  ManualClock clock;
  const auto directory = directory_of({decoder.peer("secret")}, clock);
  const auto info = directory->find(decoder.digest(), "");
  ASSERT_TRUE(info.ok()) << info.status().to_string();
  EXPECT_EQ((*info)->identity.digest, decoder.digest());
  EXPECT_EQ((*info)->identity.fields["weights"], "w1");
  EXPECT_EQ((*info)->layout.to_json(), decoder.layout);
  EXPECT_EQ((*info)->handoff_host, "127.0.0.1");
  EXPECT_EQ((*info)->handoff_port, 9100);
  EXPECT_TRUE(*(*info)->projection_pack == decoder.pack);
  EXPECT_EQ(decoder.authorization, "Bearer secret");

  ASSERT_TRUE(directory->find(decoder.digest(), "").ok());
  EXPECT_EQ(decoder.identities_asked, 1);  // within the second
  clock.ms = 1'000;
  decoder.port = 9200;  // restarted
  const auto again = directory->find(decoder.digest(), "");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ((*again)->handoff_port, 9200);
  EXPECT_EQ(decoder.identities_asked, 2);
  EXPECT_EQ(decoder.packs_asked, 1);  // the same identity has the same pack
}

TEST(HttpDecoderDirectory, AChangedIdentityIsNamed) {
  FakeDecoder decoder;
  ManualClock clock;
  const auto directory = directory_of({decoder.peer()}, clock);
  const Digest before = decoder.digest();
  ASSERT_TRUE(directory->find(before, "").ok());
  Json fields = decoder.identity["fields"];
  fields["weights"] = "w2";
  decoder.set_fields(fields);
  clock.ms = 1'000;
  const Status gone = directory->find(before, "").status();
  EXPECT_EQ(gone.code(), Code::kNotFound);
  EXPECT_NE(gone.message().find(decoder.digest().hex()), std::string::npos) << gone.message();
  EXPECT_NE(gone.message().find("weights: \"w1\" here, \"w2\" there"), std::string::npos) << gone.message();
  ASSERT_TRUE(directory->find(decoder.digest(), "").ok());
  EXPECT_EQ(decoder.packs_asked, 2);
}

TEST(HttpDecoderDirectory, SaysWhatEachDecoderHas) {
  FakeDecoder one, two;
  two.set_fields({{"family", "other"}, {"projection", one.identity["fields"]["projection"]}});
  ManualClock clock;
  const auto directory = directory_of({one.peer(), two.peer()}, clock);
  ASSERT_TRUE(directory->find(two.digest(), "").ok());
  const Status unknown = directory->find(sha256("unknown"), "").status();
  EXPECT_EQ(unknown.code(), Code::kNotFound);
  for (const std::string& part :
       {one.peer().name(), one.digest().hex(), two.peer().name(), two.digest().hex()}) {
    EXPECT_NE(unknown.message().find(part), std::string::npos) << unknown.message();
  }
  const Peer gone = one.peer();
  one.http.reset();
  const Status down = directory->find(sha256("unknown"), "").status();
  EXPECT_EQ(down.code(), Code::kUnavailable);
  EXPECT_NE(down.message().find(gone.name() + ": "), std::string::npos) << down.message();
}

TEST(HttpDecoderDirectory, RefusesWhatDoesNotAddUp) {
  const Checkpoint scaled = tiny(with_config("llama_tiny", "config_llama3rope.json"));
  const Bytes other_pack = export_projection(scaled).take();
  struct Row {
    const char* name;
    std::function<void(FakeDecoder&)> change;
    Code code;  // of find(); an identity that is not believed makes the decoder unavailable
    const char* message;
  };
  const Row rows[] = {
      {"digest",
       [](FakeDecoder& d) {
         d.override_body = d.body();
         d.override_body["identity"]["fields"]["weights"] = "w2";
       },
       Code::kUnavailable, "digest of the fields"},
      {"no identity",
       [](FakeDecoder& d) {
         d.override_body = d.body();
         d.override_body.erase("identity");
       },
       Code::kUnavailable, "expected identity"},
      {"identity text",
       [](FakeDecoder& d) {
         d.override_body = d.body();
         d.override_body["identity"] = "x";
       },
       Code::kUnavailable, "digest"},
      {"not an object", [](FakeDecoder& d) { d.override_body = Json::array({1}); }, Code::kUnavailable,
       "expected identity"},
      {"no layout",
       [](FakeDecoder& d) {
         d.override_body = d.body();
         d.override_body.erase("layout");
       },
       Code::kUnavailable, "layout"},
      {"bad layout", [](FakeDecoder& d) { d.layout["block_tokens"] = 0; }, Code::kUnavailable,
       "block_tokens"},
      {"port 0", [](FakeDecoder& d) { d.port = 0; }, Code::kUnavailable, "handoff_port"},
      {"port 65536", [](FakeDecoder& d) { d.port = 65'536; }, Code::kUnavailable, "handoff_port"},
      {"another pack", [&](FakeDecoder& d) { d.pack = other_pack; }, Code::kMismatch, "projection"},
      {"a flipped bit", [](FakeDecoder& d) { d.pack.back() ^= std::byte{1}; }, Code::kMismatch, "digest"},
      {"no pack", [](FakeDecoder& d) { d.pack.clear(); }, Code::kCorrupt, "/v1/projection"},
      {"no projection field",
       [](FakeDecoder& d) {
         d.set_fields({{"family", "llama"}});
       },
       Code::kInvalidArgument, "'projection' is missing"},
  };
  for (const Row& r : rows) {
    FakeDecoder decoder;
    ManualClock clock;
    r.change(decoder);
    const auto directory = directory_of({decoder.peer()}, clock);
    const Status status = directory->find(decoder.digest(), "").status();
    EXPECT_EQ(status.code(), r.code) << r.name << ": " << status.to_string();
    EXPECT_NE(status.message().find(r.message), std::string::npos) << r.name << ": " << status.message();
  }
  EXPECT_EQ(HttpDecoderDirectory::create({}).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace isthmus
