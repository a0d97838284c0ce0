// SPDX-License-Identifier: Apache-2.0
// Constants of the handoff wire format, version 1. The byte tables and a worked example:
// docs/formats/handoff.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace isthmus::handoff {

inline constexpr uint32_t kMagic = 0x46485349;  // "ISHF" in file order
inline constexpr uint8_t kVersion = 1;

// Frame header, little-endian, 32 bytes: magic u32 · version u8 · type u8 · zero u16 · json bytes u32 ·
// payload bytes u32 · sequence u32 · zero u32 · xxh3-64 u64 of everything before it, then the JSON, then the
// payload.
inline constexpr size_t kHeaderBytes = 32;
inline constexpr size_t kChecksumOffset = 24;
inline constexpr uint32_t kMaxJsonBytes = 64 * 1024;
inline constexpr uint32_t kMaxPayloadBytes = 64 * 1024 * 1024;

enum class FrameType : uint8_t {
  kOpen = 1,   // sender: what will come; fixes every size
  kRows = 2,   // sender: planes of tokens [first, last); payload is one safetensors buffer
  kSeal = 3,   // sender: all of it came
  kAck = 4,    // receiver: rows visible up to `landed`
  kAbort = 5,  // either: gives up, with the reason
  kPing = 6,   // sender: still computing
};

// Handshake before the first frame: the receiver sends its greeting, the sender its proof, the receiver its
// own.
inline constexpr uint32_t kGreetingMagic = 0x4b485349;  // "ISHK"
inline constexpr size_t kNonceBytes = 16;
inline constexpr size_t kTransferIdBytes = 16;
inline constexpr size_t kGreetingBytes = 4 + 4 + kNonceBytes;  // magic u32, version u32, nonce
inline constexpr size_t kProofBytes =
    kTransferIdBytes + kNonceBytes + 32;    // id, nonce, HMAC-SHA256: 64 bytes
inline constexpr size_t kAnswerBytes = 32;  // HMAC-SHA256

inline constexpr std::string_view kRecordingExtension = ".ish";  // a sender's frames, one after the other

inline constexpr int kWindowFrames = 4;  // ROWS frames in flight without ACK

}  // namespace isthmus::handoff
