// SPDX-License-Identifier: Apache-2.0
// HTTPS between our server and our client, with certificates made here.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <filesystem>

#include "net/http_client.h"
#include "net/http_test_util.h"

namespace isthmus {
namespace {

template <typename T, void (*free_fn)(T*)>
struct Free {
  void operator()(T* p) const { free_fn(p); }
};
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY, EVP_PKEY_free>>;
using Cert = std::unique_ptr<X509, Free<X509, X509_free>>;

void close_file(std::FILE* file) {
  std::fclose(file);
}
using File = std::unique_ptr<std::FILE, Free<std::FILE, close_file>>;

void add_extension(X509* cert, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, cert, cert, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value);
  ASSERT_NE(extension, nullptr);
  X509_add_ext(cert, extension, -1);
  X509_EXTENSION_free(extension);
}

// A self-signed certificate for names (a subjectAltName value), which is its own authority, and its key.
class Identity {
 public:
  explicit Identity(const char* names) {
    static int counter = 0;
    directory_ = std::filesystem::temp_directory_path() /
                 ("isthmus_tls_test_" + std::to_string(::getpid()) + "_" + std::to_string(counter++));
    std::filesystem::create_directories(directory_);
    const Key key(EVP_EC_gen("P-256"));
    const Cert cert(X509_new());
    X509_set_version(cert.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert.get()), 3600);
    X509_set_pubkey(cert.get(), key.get());
    X509_NAME* name = X509_get_subject_name(cert.get());
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("isthmus test"), -1, -1, 0);
    X509_set_issuer_name(cert.get(), name);
    add_extension(cert.get(), NID_basic_constraints, "critical,CA:TRUE");
    add_extension(cert.get(), NID_subject_alt_name, names);
    EXPECT_GT(X509_sign(cert.get(), key.get(), EVP_sha256()), 0);
    EXPECT_EQ(PEM_write_X509(File(std::fopen(cert_file().c_str(), "wb")).get(), cert.get()), 1);
    EXPECT_EQ(PEM_write_PrivateKey(File(std::fopen(key_file().c_str(), "wb")).get(), key.get(), nullptr,
                                   nullptr, 0, nullptr, nullptr),
              1);
  }
  ~Identity() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  std::string cert_file() const { return directory_ / "cert.pem"; }
  std::string key_file() const { return directory_ / "key.pem"; }

 private:
  std::filesystem::path directory_;
};

std::unique_ptr<HttpServer> tls_server(const Identity& identity, const std::string& client_ca,
                                       HttpHandler handler) {
  HttpServerOptions options;
  options.tls = {identity.cert_file(), identity.key_file(), client_ca};
  return start_server(options, std::move(handler));
}

void echo_body(const HttpRequest& request, HttpResponder& reply) {
  EXPECT_TRUE(reply.send(200, "text/plain", request.body).ok());
}

HttpCall https_call(const std::string& host, uint16_t port) {
  HttpCall call;
  call.url = *parse_url("https://" + host + ":" + std::to_string(port));
  call.method = "POST";
  call.body = std::string(400'000, 'q');
  return call;
}

TEST(Tls, RoundTripAndTrust) {
  const Identity good("IP:127.0.0.1,DNS:localhost");
  const Identity other_name("DNS:elsewhere.example");
  struct Row {
    const char* what;
    const Identity* server;
    std::string client_ca;
    std::string host;
    Code code;
  };
  const Row rows[] = {
      {"address", &good, good.cert_file(), "127.0.0.1", Code::kOk},
      {"name", &good, good.cert_file(), "localhost", Code::kOk},
      {"unknown authority", &good, other_name.cert_file(), "127.0.0.1", Code::kUnauthenticated},
      {"system authorities", &good, "", "127.0.0.1", Code::kUnauthenticated},
      {"wrong name", &other_name, other_name.cert_file(), "127.0.0.1", Code::kUnauthenticated},
  };
  for (const Row& row : rows) {
    const auto server = tls_server(*row.server, "", echo_body);
    const auto client = HttpClient::create({{"", "", row.client_ca}});
    ASSERT_TRUE(client.ok()) << client.status().to_string();
    const HttpCall call = https_call(row.host, server->port());
    const auto response = client->request(call);
    EXPECT_EQ(response.status().code(), row.code) << row.what << ": " << response.status().to_string();
    if (response.ok()) {
      EXPECT_EQ(response->body, call.body) << row.what;
    }
  }
}

TEST(Tls, ClientCertificateIsDemandedWhenTheServerHasAnAuthority) {
  const Identity server_identity("IP:127.0.0.1");
  const Identity client_identity("DNS:client");
  const auto server = tls_server(server_identity, client_identity.cert_file(), echo_body);
  const HttpCall call = https_call("127.0.0.1", server->port());
  const auto without = HttpClient::create({{"", "", server_identity.cert_file()}});
  EXPECT_FALSE(without->request(call).ok());
  const auto with = HttpClient::create(
      {{client_identity.cert_file(), client_identity.key_file(), server_identity.cert_file()}});
  const auto response = with->request(call);
  ASSERT_TRUE(response.ok()) << response.status().to_string();
  EXPECT_EQ(response->body, call.body);
}

TEST(Tls, StreamAndDisconnect) {
  const Identity identity("IP:127.0.0.1");
  Event got_first;
  Event gone;
  const auto server = tls_server(identity, "", [&](const HttpRequest& request, HttpResponder& reply) {
    const std::stop_callback on_cancel(request.cancelled, [&] { gone.set(); });
    EXPECT_TRUE(reply.begin_stream(200, "text/plain").ok());
    EXPECT_TRUE(reply.write("first").ok());
    EXPECT_TRUE(got_first.wait());
    EXPECT_TRUE(gone.wait());
  });
  const auto client = HttpClient::create({{"", "", identity.cert_file()}});
  const auto response =
      client->stream(https_call("127.0.0.1", server->port()), nullptr, [&](std::string_view bytes) {
        EXPECT_EQ(bytes, "first");
        got_first.set();
        return false;
      });
  ASSERT_TRUE(response.ok()) << response.status().to_string();
  EXPECT_TRUE(gone.wait(1'000));
}

TEST(Tls, PlainBytesDoNotDisturbAndBadFilesAreRefused) {
  const Identity identity("IP:127.0.0.1");
  const auto server = tls_server(identity, "", echo_body);
  RawClient plain(server->port());
  ASSERT_TRUE(plain.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n").ok());
  EXPECT_EQ(plain.read_to_end().find("HTTP"), std::string::npos);
  const auto client = HttpClient::create({{"", "", identity.cert_file()}});
  EXPECT_TRUE(client->request(https_call("127.0.0.1", server->port())).ok());

  HttpServerOptions options;
  options.tls = {identity.cert_file(), "/nonexistent/key.pem", ""};
  EXPECT_EQ(HttpServer::start(options, echo_body).status().code(), Code::kInvalidArgument);
  options.tls = {identity.key_file(), identity.key_file(), ""};
  EXPECT_EQ(HttpServer::start(options, echo_body).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(HttpClient::create({{"", "", identity.key_file()}}).status().code(), Code::kInvalidArgument);
}

TEST(Tls, StopWithAHalfDoneHandshake) {
  const Identity identity("IP:127.0.0.1");
  const auto server = tls_server(identity, "", echo_body);
  RawClient silent(server->port());
  const auto client = HttpClient::create({{"", "", identity.cert_file()}});
  EXPECT_TRUE(client->request(https_call("127.0.0.1", server->port()))
                  .ok());  // the accept loop is past the silent one
  const auto before = std::chrono::steady_clock::now();
  server->stop();
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(5));
}

}  // namespace
}  // namespace isthmus
