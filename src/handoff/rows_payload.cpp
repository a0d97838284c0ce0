// SPDX-License-Identifier: Apache-2.0
#include "handoff/rows_payload.h"

#include <cstring>

#include "tensor/safetensors.h"

namespace isthmus::handoff {
namespace {

// Of a safetensors header per plane: name, dtype, shape and offsets in JSON stay under this.
constexpr size_t kHeadBytesPerPlane = 256;

size_t plane_bytes(const PlaneSpec& p, int64_t first, int64_t last) {
  return static_cast<size_t>(plane_rows(p, first, last).count) * p.row_bytes();
}

size_t plane_offset(const PlaneLayout& layout, size_t plane, int64_t first, int64_t last) {
  size_t offset = 0;
  for (size_t i = 0; i < plane; ++i) offset += plane_bytes(layout.planes[i], first, last);
  return offset;
}

template <typename Word>
bool no_full_exponent(std::span<const std::byte> values, Word exponent_mask) {
  bool finite = true;  // no early exit: the loop vectorizes, and bad values are rare
  for (size_t i = 0; i + sizeof(Word) <= values.size(); i += sizeof(Word)) {
    Word w;
    std::memcpy(&w, values.data() + i, sizeof w);
    finite &= (w & exponent_mask) != exponent_mask;
  }
  return finite;
}

Status corrupt(const std::string& what) {
  return {Code::kCorrupt, "handoff ROWS: " + what};
}

}  // namespace

bool all_finite(DType dtype, std::span<const std::byte> values) {
  switch (dtype) {
    case DType::kF32:
      return no_full_exponent<uint32_t>(values, 0x7f800000u);
    case DType::kBF16:
      return no_full_exponent<uint16_t>(values, 0x7f80u);
    case DType::kF16:
      return no_full_exponent<uint16_t>(values, 0x7c00u);
    case DType::kF8E4M3:
      return no_full_exponent<uint8_t>(values, 0x7fu);  // only NaN has all of them set
    default:
      return true;
  }
}

size_t payload_head_limit(const PlaneLayout& layout) {
  return (layout.planes.size() + 1) * kHeadBytesPerPlane;
}

Status check_fits_frames(const PlaneLayout& layout, uint32_t max_payload) {
  for (const PlaneSpec& p : layout.planes) {
    // No block of the sequence has more rows of it than one that starts late.
    const int64_t late = (int64_t{1} << 40) / layout.block_tokens * layout.block_tokens;
    const size_t bytes = plane_bytes(p, late, late + layout.block_tokens) + 2 * kHeadBytesPerPlane;
    if (bytes > max_payload) {
      return {Code::kUnsupported, "handoff: plane " + p.name + " takes " + std::to_string(bytes) +
                                      " bytes a block, a frame " + std::to_string(max_payload) +
                                      ": use smaller blocks"};
    }
  }
  return {};
}

Json rows_json(const RowsMessage& m) {
  return {{"first", m.first}, {"last", m.last}, {"plane", m.first_plane}, {"planes", m.planes}};
}

Result<RowsMessage> parse_rows(const Json& j, const PlaneLayout& layout) {
  RowsMessage m;
  ASSIGN_OR_RETURN(m.first, get_int(j, "first", "handoff ROWS"));
  ASSIGN_OR_RETURN(m.last, get_int(j, "last", "handoff ROWS"));
  ASSIGN_OR_RETURN(const int64_t plane, get_int(j, "plane", "handoff ROWS"));
  ASSIGN_OR_RETURN(const int64_t planes, get_int(j, "planes", "handoff ROWS"));
  const auto total = static_cast<int64_t>(layout.planes.size());
  if (plane < 0 || planes < 1 || plane >= total || planes > total - plane) {
    return corrupt("planes " + std::to_string(plane) + "+" + std::to_string(planes) + " of " +
                   std::to_string(total));
  }
  if (m.first < 0 || m.last <= m.first || m.last - m.first > layout.block_tokens) {
    return corrupt("token range [" + std::to_string(m.first) + ", " + std::to_string(m.last) +
                   ") is not part of a block");
  }
  m.first_plane = static_cast<size_t>(plane);
  m.planes = static_cast<size_t>(planes);
  return m;
}

std::vector<RowsMessage> split_block(const PlaneLayout& layout, int64_t first, int64_t last,
                                     uint32_t max_payload) {
  std::vector<RowsMessage> messages;
  size_t used = max_payload;  // starts a first message
  for (size_t i = 0; i < layout.planes.size(); ++i) {
    const size_t need = plane_bytes(layout.planes[i], first, last) + kHeadBytesPerPlane;
    if (messages.empty() || used + need > max_payload) {
      messages.push_back({first, last, i, 0});
      used = kHeadBytesPerPlane;
    }
    ++messages.back().planes;
    used += need;
  }
  return messages;
}

Result<RowsPayload> rows_payload(const PlaneLayout& layout, const RowsMessage& m,
                                 std::span<const std::byte> block) {
  std::vector<TensorView> tensors;
  size_t offset = plane_offset(layout, m.first_plane, m.first, m.last);
  for (size_t i = m.first_plane; i < m.first_plane + m.planes; ++i) {
    const PlaneSpec& p = layout.planes[i];
    const size_t bytes = plane_bytes(p, m.first, m.last);
    ISTHMUS_CHECK(offset + bytes <= block.size());
    tensors.push_back({p.name,
                       p.dtype,
                       {plane_rows(p, m.first, m.last).count, p.row_values},
                       block.subspan(offset, bytes)});
    offset += bytes;
  }
  ASSIGN_OR_RETURN(SafetensorsPlan plan, plan_safetensors(tensors));
  RowsPayload payload;
  payload.head = std::move(plan.head);
  for (const TensorView* t : plan.order) payload.planes.push_back(t->data);
  return payload;
}

Status unpack_rows(const PlaneLayout& layout, const RowsMessage& m, std::span<const std::byte> payload,
                   std::span<std::byte> block) {
  SafetensorsLimits limits;
  limits.max_header_bytes = payload_head_limit(layout);
  ASSIGN_OR_RETURN(const Safetensors file, Safetensors::parse(payload, "handoff ROWS", limits));
  if (file.tensors().size() != m.planes) {
    return corrupt(std::to_string(file.tensors().size()) + " planes, the frame says " +
                   std::to_string(m.planes));
  }
  size_t offset = plane_offset(layout, m.first_plane, m.first, m.last);
  for (size_t i = m.first_plane; i < m.first_plane + m.planes; ++i) {
    const PlaneSpec& p = layout.planes[i];
    const std::vector<int64_t> shape = {plane_rows(p, m.first, m.last).count, p.row_values};
    const TensorView* t = file.tensors().find(p.name);
    if (t == nullptr) return corrupt("plane " + p.name + " is missing");
    if (t->dtype != p.dtype || t->shape != shape) {
      return corrupt("plane " + p.name + ": expected " + std::string(dtype_info(p.dtype).name) + " " +
                     shape_text(shape) + ", got " + std::string(dtype_info(t->dtype).name) + " " +
                     shape_text(t->shape));
    }
    if (!all_finite(p.dtype, t->data)) {
      return {Code::kInvalidArgument, "handoff ROWS: plane " + p.name + " has non-finite values"};
    }
    if (!t->data.empty()) std::memcpy(block.data() + offset, t->data.data(), t->data.size());
    offset += t->data.size();
  }
  return {};
}

}  // namespace isthmus::handoff
