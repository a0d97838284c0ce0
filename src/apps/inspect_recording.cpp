// SPDX-License-Identifier: Apache-2.0
#include "apps/inspect.h"
#include "base/fs.h"
#include "handoff/recording.h"

namespace isthmus {
namespace {

using handoff::FrameType;
using handoff::RecordedFrame;
using handoff::Recording;

Json open_json(const TransferSpec& t) {
  return {{"transfer", t.id},
          {"tokens", t.prompt_tokens},
          {"rows", {{"first", t.first}, {"last", t.last}}},
          {"ids", t.ids.hex()},
          {"identity", t.identity.hex()},
          {"mode", source_kind_name(t.source.kind)},
          {"producer", t.source.producer.hex()},
          {"block_tokens", t.layout.block_tokens},
          {"planes", t.layout.planes.size()}};
}

std::string range_text(const Json& j, const char* first, const char* count_or_last, bool is_count) {
  const int64_t a = j.value(first, int64_t{0});
  const int64_t b = j.value(count_or_last, int64_t{0}) + (is_count ? a : 0);
  return std::to_string(a) + ".." + std::to_string(b);
}

Json frame_json(const RecordedFrame& f) {
  const bool rows = f.type == FrameType::kRows;
  return {{"offset", f.offset},
          {"frame", frame_type_name(f.type)},
          {"rows", rows ? range_text(f.json, "first", "last", false) : "-"},
          {"planes", rows ? range_text(f.json, "plane", "planes", true) : "-"},
          {"payload_bytes", f.payload_bytes},
          {"checksum", "ok"}};
}

std::string end_text(const Recording& r) {
  if (r.sealed) return "sealed: rows, frames, bytes and digest are as SEAL says";
  if (!r.aborted.ok()) return "aborted: " + r.aborted.message();
  return "cut";
}

}  // namespace

Result<Json> describe_recording(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  const Recording r = handoff::read_recording(file.bytes());
  Json j = {{"what", "handoff recording"}, {"file_bytes", file.bytes().size()}};
  if (r.opened) j["open"] = open_json(*r.opened);
  Json frames = Json::array();
  for (const RecordedFrame& f : r.frames) frames.push_back(frame_json(f));
  j["frames"] = std::move(frames);
  j["whole_blocks_to"] = r.taken_to;
  j["plane_bytes"] = r.plane_bytes;
  j["digest"] = r.digest;
  j["end"] = end_text(r);
  if (!r.damage.ok()) {
    j["damaged"] = "offset " + std::to_string(r.damage_offset) + ", frame " +
                   std::to_string(r.frames.size()) + ": " + r.damage.message();
  }
  return j;
}

}  // namespace isthmus
