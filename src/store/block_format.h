// SPDX-License-Identifier: Apache-2.0
// Constants of the block file; the byte table with a worked example is docs/formats/block.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace isthmus::block_format {

inline constexpr std::string_view kMagic = "ISTHMUSB";
inline constexpr uint32_t kVersion = 1;
inline constexpr std::string_view kExtension = ".isb";

// Offsets of the fixed fields.
inline constexpr size_t kVersionAt = 8;
inline constexpr size_t kHeaderBytesAt = 12;
inline constexpr size_t kIdentityAt = 16;
inline constexpr size_t kKeyAt = 48;
inline constexpr size_t kParentAt = 80;
inline constexpr size_t kProducerAt = 112;
inline constexpr size_t kLayoutDigestAt = 144;
inline constexpr size_t kFirstTokenAt = 176;
inline constexpr size_t kPlanesBytesAt = 184;
inline constexpr size_t kPlanesChecksumAt = 192;
inline constexpr size_t kCountAt = 200;
inline constexpr size_t kLayoutBytesAt = 204;
inline constexpr size_t kSourceKindAt = 208;
inline constexpr size_t kTransferIdBytesAt = 209;
inline constexpr size_t kReservedAt = 210;  // six zero bytes
inline constexpr size_t kFixedBytes = 216;  // then ids, transfer id, layout, zeros, header checksum

inline constexpr size_t kAlignment = 8;  // of the header's checksum and of the planes
inline constexpr size_t kChecksumBytes = 8;
inline constexpr uint32_t kMaxCount = 1 << 20;  // tokens
inline constexpr uint32_t kMaxLayoutBytes = 1 << 20;
inline constexpr int64_t kMaxFirstToken = int64_t{1} << 40;

}  // namespace isthmus::block_format
