// SPDX-License-Identifier: Apache-2.0
#include "store/block_file.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/json.h"
#include "store/block_format.h"

namespace isthmus {
namespace {

using namespace block_format;

Status corrupt(std::string_view where, const std::string& what) {
  return {Code::kCorrupt, std::string(where) + ": " + what};
}

size_t round_up(size_t n) {
  return (n + kAlignment - 1) / kAlignment * kAlignment;
}

void write_digest(ByteWriter& w, const Digest& d) {
  w.append(std::as_bytes(std::span(d.bytes)));
}

Digest read_digest(ByteReader& r) {
  return {r.read<decltype(Digest::bytes)>()};
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

// Magic, version and length: enough to know which bytes the checksum covers.
Result<std::span<const std::byte>> header_span(std::span<const std::byte> bytes, std::string_view where) {
  ByteReader r(bytes);
  const std::string_view magic = as_text(r.take(kMagic.size()));
  const auto version = r.read<uint32_t>();
  const size_t size = r.read<uint32_t>();
  if (!r.ok() || magic != kMagic) return corrupt(where, "not a block file");
  if (version != kVersion) {
    return Status(Code::kUnsupported, std::string(where) + ": version " + std::to_string(version) +
                                          ", expected " + std::to_string(kVersion));
  }
  if (size < kFixedBytes + kChecksumBytes || size % kAlignment != 0 || size > bytes.size()) {
    return corrupt(where, "header of " + std::to_string(size) + " bytes in " + std::to_string(bytes.size()));
  }
  const auto header = bytes.first(size);
  ByteReader end(header.last(kChecksumBytes));
  if (end.read<uint64_t>() != xxh3_64(header.first(size - kChecksumBytes))) {
    return corrupt(where, "header checksum does not match");
  }
  return header;
}

struct VariableSizes {
  uint32_t count = 0;
  uint32_t layout_bytes = 0;
  uint8_t kind = 0;
  uint8_t transfer_id_bytes = 0;

  size_t header_bytes() const {
    return round_up(kFixedBytes + sizeof(TokenId) * count + transfer_id_bytes + layout_bytes) +
           kChecksumBytes;
  }
};

Status check_fixed(const VariableSizes& sizes, int64_t first_token, size_t header_bytes,
                   std::string_view where) {
  if (sizes.count < 1 || sizes.count > kMaxCount || sizes.layout_bytes > kMaxLayoutBytes) {
    return corrupt(where, std::to_string(sizes.count) + " ids and a layout of " +
                              std::to_string(sizes.layout_bytes) + " bytes are out of range");
  }
  if (sizes.header_bytes() != header_bytes) {
    return corrupt(where, "header of " + std::to_string(header_bytes) + " bytes, its parts make " +
                              std::to_string(sizes.header_bytes()));
  }
  if (first_token < 0 || first_token > kMaxFirstToken) return corrupt(where, "first token out of range");
  if (sizes.kind > static_cast<uint8_t>(SourceKind::kProject)) {
    return corrupt(where, "unknown source kind " + std::to_string(sizes.kind));
  }
  return {};
}

Status check_content(const BlockHeader& h, std::string_view where) {
  const Block& b = h.block;
  if (b.source.kind == SourceKind::kNative && b.source.producer != Digest{}) {
    return corrupt(where, "a native block names a producer");
  }
  if (!std::all_of(b.transfer_id.begin(), b.transfer_id.end(), [](char c) { return c > ' ' && c <= '~'; })) {
    return corrupt(where, "transfer id is not printable ASCII");
  }
  if (sha256(h.layout_json) != h.layout_digest) return corrupt(where, "layout digest does not match");
  if (block_key(b.parent, b.source, b.ids) != b.key) return corrupt(where, "key does not match the ids");
  return {};
}

}  // namespace

BlockContext BlockContext::of(const Digest& identity, PlaneLayout layout) {
  BlockContext c;
  c.identity = identity;
  c.layout_json = dump_canonical(layout.to_json());
  c.layout_digest = sha256(c.layout_json);
  c.layout = std::move(layout);
  return c;
}

Bytes encode_block_header(const Block& block, const BlockContext& context) {
  const VariableSizes sizes{
      static_cast<uint32_t>(block.ids.size()), static_cast<uint32_t>(context.layout_json.size()),
      static_cast<uint8_t>(block.source.kind), static_cast<uint8_t>(block.transfer_id.size())};
  ByteWriter w;
  w.append(kMagic);
  w.write(kVersion);
  w.write(static_cast<uint32_t>(sizes.header_bytes()));
  for (const Digest* d :
       {&context.identity, &block.key, &block.parent, &block.source.producer, &context.layout_digest}) {
    write_digest(w, *d);
  }
  w.write(block.first_token);
  w.write(static_cast<uint64_t>(block.planes.size()));
  w.write(xxh3_64(block.planes));
  w.write(sizes.count);
  w.write(sizes.layout_bytes);
  w.write(sizes.kind);
  w.write(sizes.transfer_id_bytes);
  w.pad_to(kAlignment);
  w.append(std::as_bytes(std::span(block.ids)));
  w.append(block.transfer_id);
  w.append(context.layout_json);
  w.pad_to(kAlignment);
  w.write(xxh3_64(w.bytes()));
  return w.take();
}

Result<BlockHeader> parse_block_header(std::span<const std::byte> bytes, std::string_view where) {
  ASSIGN_OR_RETURN(const auto header, header_span(bytes, where));
  BlockHeader h;
  h.header_bytes = header.size();
  ByteReader r(header.first(header.size() - kChecksumBytes));
  r.skip(kIdentityAt);
  h.identity = read_digest(r);
  h.block.key = read_digest(r);
  h.block.parent = read_digest(r);
  h.block.source.producer = read_digest(r);
  h.layout_digest = read_digest(r);
  h.block.first_token = r.read<int64_t>();
  h.planes_bytes = r.read<uint64_t>();
  h.planes_checksum = r.read<uint64_t>();
  VariableSizes sizes;
  sizes.count = r.read<uint32_t>();
  sizes.layout_bytes = r.read<uint32_t>();
  sizes.kind = r.read<uint8_t>();
  sizes.transfer_id_bytes = r.read<uint8_t>();
  const bool reserved_zero = all_zero(r.take(kFixedBytes - kReservedAt));
  TRY(check_fixed(sizes, h.block.first_token, header.size(), where));
  h.block.source.kind = static_cast<SourceKind>(sizes.kind);
  h.block.ids.resize(sizes.count);
  const auto ids = r.take(sizes.count * sizeof(TokenId));
  std::copy(ids.begin(), ids.end(), std::as_writable_bytes(std::span(h.block.ids)).begin());
  h.block.transfer_id = as_text(r.take(sizes.transfer_id_bytes));
  h.layout_json = as_text(r.take(sizes.layout_bytes));
  if (!reserved_zero || !all_zero(r.take(r.remaining())))
    return corrupt(where, "reserved bytes are not zero");
  TRY(check_content(h, where));
  return h;
}

Status check_block_header(const BlockHeader& h, const BlockContext& c, std::string_view where) {
  if (h.identity != c.identity) {
    return {Code::kMismatch, std::string(where) + ": identity " + h.identity.hex().substr(0, 8) +
                                 ", this store's is " + c.identity.hex().substr(0, 8)};
  }
  if (h.layout_digest != c.layout_digest) {
    return {Code::kMismatch, std::string(where) + ": plane layout differs from this store's"};
  }
  const auto count = static_cast<int64_t>(h.block.ids.size());
  if (h.block.first_token % c.layout.block_tokens != 0 || count > c.layout.block_tokens) {
    return corrupt(where, "tokens [" + std::to_string(h.block.first_token) + ", +" + std::to_string(count) +
                              ") are not one block");
  }
  const size_t expected = c.layout.block_bytes(h.block.first_token, h.block.last_token());
  if (h.planes_bytes != expected) {
    return corrupt(where,
                   std::to_string(h.planes_bytes) + " plane bytes, expected " + std::to_string(expected));
  }
  return {};
}

Result<BlockPtr> parse_block(std::span<const std::byte> file, const BlockContext& context,
                             std::string_view where) {
  ASSIGN_OR_RETURN(BlockHeader h, parse_block_header(file, where));
  TRY(check_block_header(h, context, where));
  const auto planes = file.subspan(h.header_bytes);
  if (planes.size() != h.planes_bytes) {
    return corrupt(where, "file of " + std::to_string(file.size()) + " bytes, expected " +
                              std::to_string(h.file_bytes()));
  }
  if (xxh3_64(planes) != h.planes_checksum) return corrupt(where, "planes checksum does not match");
  h.block.planes.assign(planes.begin(), planes.end());
  return BlockPtr(std::make_shared<const Block>(std::move(h.block)));
}

}  // namespace isthmus
