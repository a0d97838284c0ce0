// SPDX-License-Identifier: Apache-2.0
#include "net/url.h"

#include <gtest/gtest.h>

namespace isthmus {
namespace {

TEST(Url, AcceptsAndPrintsBack) {
  struct Row {
    const char* text;
    const char* host;
    int port;
    const char* path;
    const char* query;
    const char* printed;
  };
  const Row rows[] = {
      {"http://a", "a", 80, "/", "", "http://a/"},
      {"https://a/", "a", 443, "/", "", "https://a/"},
      {"HTTP://LocalHost:8012/V1", "localhost", 8012, "/V1", "", "http://localhost:8012/V1"},
      {"http://127.0.0.1:80/x", "127.0.0.1", 80, "/x", "", "http://127.0.0.1/x"},
      {"http://[::1]:8021/x?y=1&z=%20", "::1", 8021, "/x", "y=1&z=%20", "http://[::1]:8021/x?y=1&z=%20"},
      {"http://a?q", "a", 80, "/", "q", "http://a/?q"},
      {"http://my_box-1.lan/a/b", "my_box-1.lan", 80, "/a/b", "", "http://my_box-1.lan/a/b"},
  };
  for (const Row& row : rows) {
    const Result<Url> url = parse_url(row.text);
    ASSERT_TRUE(url.ok()) << row.text << ": " << url.status().to_string();
    EXPECT_EQ(url->host, row.host) << row.text;
    EXPECT_EQ(url->port, row.port) << row.text;
    EXPECT_EQ(url->path, row.path) << row.text;
    EXPECT_EQ(url->query, row.query) << row.text;
    EXPECT_EQ(url->to_string(), row.printed) << row.text;
  }
}

TEST(Url, Refuses) {
  const char* rows[] = {
      "",
      "a",
      "a:80",
      "ftp://a/",
      "http:/a",
      "http://",
      "http:///x",
      "http://user@a/",
      "http://user:pw@a/",
      "http://a:0/",
      "http://a:65536/",
      "http://a:/",
      "http://a:8o/",
      "http://a:-1/",
      "http://a: 80/",
      "http://a b/",
      "http://a/b c",
      "http://a/b\r\nX: y",
      "http://a/#frag",
      "http://a#frag",
      "http://a/%",
      "http://a/%4",
      "http://a/%zz",
      "http://a/\xc3\xa9",
      "http://[::1/",
      "http://[::g]/",
      "http://[::1]x/",
      "http://::1/",
      "http://1.2.3/",
      "http://1.2.3.4.5/",
      "http://256.1.1.1/",
      "http://a..b/",
      "http://.a/",
      "http://-a/",
      " http://a/",
      "http://a/ ",
  };
  for (const char* row : rows) {
    const Result<Url> url = parse_url(row);
    EXPECT_EQ(url.status().code(), Code::kInvalidArgument) << row;
  }
  EXPECT_FALSE(parse_url(std::string_view("http://a\0b/", 11)).ok());
  EXPECT_FALSE(parse_url("http://a/" + std::string(5000, 'x')).ok());
  EXPECT_FALSE(parse_url("http://" + std::string(300, 'x')).ok());
}

TEST(Url, HostPortNeedsAPortOrADefault) {
  EXPECT_EQ(parse_host_port("a:1")->to_string(), "a:1");
  EXPECT_EQ(parse_host_port("[::1]:9")->to_string(), "[::1]:9");
  EXPECT_EQ(parse_host_port("[fe80::A]", 7)->to_string(), "[fe80::a]:7");
  EXPECT_EQ(parse_host_port("a", 5)->port, 5);
  EXPECT_FALSE(parse_host_port("a").ok());
  EXPECT_FALSE(parse_host_port("a:b:c").ok());
}

TEST(Url, LoopbackNames) {
  for (const char* host : {"localhost", "LOCALHOST", "127.0.0.1", "127.1.2.3", "::1"}) {
    EXPECT_TRUE(is_loopback_host(host)) << host;
  }
  for (const char* host :
       {"localhost.evil.com", "128.0.0.1", "127.0.0.1.evil.com", "0.0.0.0", "::", "", "127.1"}) {
    EXPECT_FALSE(is_loopback_host(host)) << host;
  }
}

TEST(Url, PercentDecode) {
  EXPECT_EQ(*percent_decode("a%2Fb%20c+"), "a/b c+");
  EXPECT_EQ(*percent_decode("%41"), "A");
  for (const char* bad : {"%", "%4", "a%4g", "%%41"}) EXPECT_FALSE(percent_decode(bad).ok()) << bad;
}

}  // namespace
}  // namespace isthmus
