// SPDX-License-Identifier: Apache-2.0
// A ByteStream that reads from memory: recordings, tests and fuzz targets go through the same readers as
// sockets do. Borrows the bytes; writes go nowhere. One thread.
#pragma once

#include <algorithm>
#include <string>

#include "net/byte_stream.h"

namespace isthmus {

class SpanStream final : public ByteStream {
 public:
  explicit SpanStream(ConstBytes bytes) : bytes_(bytes) {}

  // kUnavailable at the end, as when a peer closes; nothing is consumed then.
  Status read_exact(std::span<std::byte> out, const IoLimits&) override {
    if (out.size() > remaining()) {
      return {Code::kUnavailable, "expected " + std::to_string(out.size()) + " bytes, got the end after " +
                                      std::to_string(remaining())};
    }
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(position_), out.size(), out.begin());
    position_ += out.size();
    return {};
  }
  Status write_all(std::span<const ConstBytes>, const IoLimits&) override { return {}; }
  void close() override {}

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }

 private:
  const ConstBytes bytes_;
  size_t position_ = 0;
};

}  // namespace isthmus
