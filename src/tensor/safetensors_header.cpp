// SPDX-License-Identifier: Apache-2.0
#include "tensor/safetensors_header.h"

#include <limits>

#include "base/json.h"

namespace isthmus {
namespace {

constexpr size_t kMaxRank = 16;

// Receives the parser's events. A handler returns false to stop, after setting status_.
class HeaderEvents final : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderEvents(std::string_view where) : where_(where) {}

  Status status() const { return status_; }
  SafetensorsHeader take() { return std::move(header_); }

  bool start_object(std::size_t /*size*/) override {
    switch (place_) {
      case Place::kOutside:
        return go(Place::kNames);
      case Place::kTensor:
        return go(Place::kFields);
      case Place::kMetadata:
        return go(Place::kMetadataKeys);
      default:
        return unexpected("an object");
    }
  }
  bool key(string_t& name) override {
    switch (place_) {
      case Place::kNames:
        return start_entry(name);
      case Place::kFields:
        return start_field(name);
      default:
        metadata_key_ = name;
        return go(Place::kMetadataText);
    }
  }
  bool end_object() override {
    if (place_ == Place::kNames) return go(Place::kEnd);
    if (place_ == Place::kFields && (seen_dtype_ + seen_shape_ + seen_offsets_) != 3) {
      return fail(Code::kCorrupt, entry() + " lacks one of dtype, shape, data_offsets");
    }
    return go(Place::kNames);
  }
  bool string(string_t& text) override {
    if (place_ == Place::kMetadataText) {
      if (!header_.metadata.emplace(metadata_key_, text).second) {
        return fail(Code::kCorrupt, "metadata key " + quote_name(metadata_key_) + " appears twice");
      }
      return go(Place::kMetadataKeys);
    }
    if (place_ != Place::kDtype) return unexpected("a string");
    const std::optional<DType> dtype = safetensors_dtype(text);
    if (!dtype)
      return fail(Code::kUnsupported,
                  entry() + " has dtype " + quote_name(text) + ", which is not supported");
    header_.tensors.back().dtype = *dtype;
    return go(Place::kFields);
  }
  bool start_array(std::size_t /*size*/) override {
    if (place_ == Place::kShape) return go(Place::kDimensions);
    if (place_ == Place::kOffsets) return go(Place::kBounds);
    return unexpected("an array");
  }
  bool number_unsigned(number_unsigned_t v) override {
    SafetensorsHeader::Tensor* const tensor = header_.tensors.empty() ? nullptr : &header_.tensors.back();
    if (place_ == Place::kDimensions) {
      if (v > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) ||
          tensor->shape.size() == kMaxRank) {
        return fail(Code::kCorrupt, entry() + " has a dimension over 2^63 or more than 16 dimensions");
      }
      tensor->shape.push_back(static_cast<int64_t>(v));
      return true;
    }
    if (place_ != Place::kBounds || bounds_ == 2) return unexpected("a number");
    (bounds_++ == 0 ? tensor->begin : tensor->end) = v;
    return true;
  }
  bool end_array() override {
    if (place_ == Place::kBounds && bounds_ != 2)
      return fail(Code::kCorrupt, entry() + " has fewer than two data_offsets");
    return go(Place::kFields);
  }

  bool null() override { return unexpected("null"); }
  bool boolean(bool /*v*/) override { return unexpected("a bool"); }
  bool number_integer(number_integer_t /*v*/) override { return unexpected("a negative number"); }
  bool number_float(number_float_t /*v*/, const string_t& /*text*/) override {
    return unexpected("a fraction");
  }
  bool binary(binary_t& /*v*/) override { return unexpected("binary data"); }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception&) override {
    return fail(Code::kCorrupt, "header is not JSON at byte " + std::to_string(position));
  }

 private:
  // Where the next event belongs.
  enum class Place {
    kOutside,
    kNames,         // key or end of the whole
    kTensor,        // object of a tensor
    kFields,        // its fields or its end
    kDtype,         // a string
    kShape,         // an array
    kDimensions,    // numbers or its end
    kOffsets,       // an array
    kBounds,        // two numbers, its end
    kMetadata,      // object of __metadata__
    kMetadataKeys,  // key or its end
    kMetadataText,  // a string
    kEnd,
  };

  bool go(Place next) {
    place_ = next;
    return true;
  }
  bool fail(Code code, const std::string& what) {
    status_ = Status(code, std::string(where_) + ": " + what);
    return false;
  }
  bool unexpected(const std::string& what) {
    return fail(Code::kCorrupt, (header_.tensors.empty() ? "header" : "header near " + entry()) + ": " +
                                    what + " where it does not belong");
  }
  std::string entry() const { return "tensor " + quote_name(header_.tensors.back().name); }

  bool start_entry(const std::string& name) {
    if (name == "__metadata__") {
      if (seen_metadata_) return fail(Code::kCorrupt, "__metadata__ appears twice");
      seen_metadata_ = true;
      return go(Place::kMetadata);
    }
    header_.tensors.emplace_back().name = name;
    seen_dtype_ = seen_shape_ = seen_offsets_ = false;
    bounds_ = 0;
    return go(Place::kTensor);
  }
  bool start_field(const std::string& name) {
    if (name == "dtype") return once(seen_dtype_, Place::kDtype, name);
    if (name == "shape") return once(seen_shape_, Place::kShape, name);
    if (name == "data_offsets") return once(seen_offsets_, Place::kOffsets, name);
    return fail(Code::kCorrupt, entry() + " has an unknown field " + quote_name(name));
  }
  bool once(bool& seen, Place next, const std::string& name) {
    if (seen) return fail(Code::kCorrupt, entry() + " has two fields " + quote_name(name));
    seen = true;
    return go(next);
  }

  std::string_view where_;
  Place place_ = Place::kOutside;
  SafetensorsHeader header_;
  Status status_;
  std::string metadata_key_;
  bool seen_metadata_ = false;
  bool seen_dtype_ = false;
  bool seen_shape_ = false;
  bool seen_offsets_ = false;
  int bounds_ = 0;
};

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, std::string_view where) {
  // The JSON library takes a zero byte for the end of the text and would not look at what follows.
  if (json.find('\0') != std::string_view::npos) {
    return Status(Code::kCorrupt, std::string(where) + ": header is not JSON (zero byte)");
  }
  HeaderEvents events(where);
  if (!Json::sax_parse(json.begin(), json.end(), &events)) {
    const Status status = events.status();
    return status.ok() ? Status(Code::kCorrupt, std::string(where) + ": header is not JSON") : status;
  }
  return events.take();
}

}  // namespace isthmus
