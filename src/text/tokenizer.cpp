// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.h"

#include <algorithm>

#include "text/byte_alphabet.h"
#include "text/nfc.h"

namespace isthmus {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;
constexpr size_t kMaxTokens = size_t{1} << 22;
// Composing makes text shorter: a Hangul syllable or a Greek letter with two marks to less than a third, none
// to a quarter.
constexpr size_t kMaxNfcShrinking = 4;

// Control tokens that end a turn or a text in published models.
constexpr std::array<std::string_view, 10> kKnownEnds = {
    "<|im_end|>",      "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>",
    "<|end_of_turn|>", "<end_of_turn>", "<|end|>",    "<|eot|>",    "</s>"};

Status corrupt(const std::string& what) {
  return {Code::kCorrupt, "tokenizer: " + what};
}

std::string quoted(std::string_view s) {
  return "'" + std::string(s.substr(0, 64)) + "'";
}

// Length-prefixed fields, so that no two specs give the same bytes.
class SpecHasher {
 public:
  void number(uint64_t v) {
    std::array<char, 8> bytes;
    for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(static_cast<uint8_t>(v >> (8 * i)));
    sha_.update(std::string_view(bytes.data(), bytes.size()));
  }
  void text(std::string_view s) {
    number(s.size());
    sha_.update(s);
  }
  Digest finish() { return sha_.finish(); }

 private:
  Sha256 sha_;
};

Digest digest_of(const TokenizerSpec& spec) {
  SpecHasher h;
  h.text("isthmus tokenizer 1");
  h.number(spec.tokens.size());
  for (const std::string& t : spec.tokens) h.text(t);
  h.number(spec.added.size());
  for (const AddedToken& t : spec.added) {
    h.number(static_cast<uint64_t>(t.id));
    h.number((t.special ? 1u : 0u) | (t.normalized ? 2u : 0u) | (t.lstrip ? 4u : 0u) | (t.rstrip ? 8u : 0u));
  }
  h.number(spec.merges.size());
  for (const std::string& m : spec.merges) h.text(m);
  h.number(spec.split_rules.size());
  for (const SplitRule rule : spec.split_rules) h.number(static_cast<uint64_t>(rule));
  h.number((spec.nfc ? 1u : 0u) | (spec.ignore_merges ? 2u : 0u) | (spec.add_bos ? 4u : 0u));
  h.number(static_cast<uint64_t>(spec.bos_id));
  h.number(static_cast<uint64_t>(spec.unknown_id));
  return h.finish();
}

Status check_id(TokenId id, size_t vocab, bool optional, std::string_view what) {
  if (optional && id == -1) return {};
  if (id >= 0 && static_cast<size_t>(id) < vocab) return {};
  return corrupt(std::string(what) + " id " + std::to_string(id) + ", vocabulary has " +
                 std::to_string(vocab));
}

Status check_spec(const TokenizerSpec& spec) {
  const size_t vocab = spec.tokens.size();
  if (vocab == 0 || vocab > kMaxTokens) {
    return corrupt(std::to_string(vocab) + " tokens, expected 1 to " + std::to_string(kMaxTokens));
  }
  if (spec.merges.size() > kMaxTokens)
    return corrupt(std::to_string(spec.merges.size()) + " merges are too many");
  TRY(check_id(spec.bos_id, vocab, true, "bos"));
  TRY(check_id(spec.unknown_id, vocab, true, "unknown"));
  if (spec.add_bos && spec.bos_id < 0) return corrupt("a BOS is to be added, but there is no BOS token");
  for (const TokenId id : spec.end_ids) TRY(check_id(id, vocab, false, "end"));
  for (const AddedToken& t : spec.added) {
    TRY(check_id(t.id, vocab, false, "added token"));
    if (spec.tokens[static_cast<size_t>(t.id)].empty())
      return corrupt("added token " + std::to_string(t.id) + " is empty");
  }
  return {};
}

}  // namespace

void add_known_end_tokens(TokenizerSpec& spec) {
  for (const AddedToken& t : spec.added) {
    if (!t.special || t.id < 0 || static_cast<size_t>(t.id) >= spec.tokens.size()) continue;
    const std::string& spelling = spec.tokens[static_cast<size_t>(t.id)];
    if (std::find(kKnownEnds.begin(), kKnownEnds.end(), spelling) != kKnownEnds.end())
      spec.end_ids.push_back(t.id);
  }
  std::sort(spec.end_ids.begin(), spec.end_ids.end());
  spec.end_ids.erase(std::unique(spec.end_ids.begin(), spec.end_ids.end()), spec.end_ids.end());
}

Tokenizer::Tokenizer(TokenizerSpec spec, PreTokenizer pre)
    : spec_(std::move(spec)), pre_(std::move(pre)), merges_(spec_.merges.size()) {}

Result<Tokenizer> Tokenizer::create(TokenizerSpec spec) {
  TRY(check_spec(spec));
  std::sort(spec.end_ids.begin(), spec.end_ids.end());
  std::sort(spec.added.begin(), spec.added.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  ASSIGN_OR_RETURN(PreTokenizer pre, PreTokenizer::create(spec.split_rules));
  Tokenizer t(std::move(spec), std::move(pre));
  TRY(t.index_flags());
  TRY(t.index_spellings());
  t.index_pieces();
  TRY(t.index_added());
  TRY(t.index_merges());
  t.digest_ = digest_of(t.spec_);
  t.spec_.merges = {};  // the table has them now
  return t;
}

Status Tokenizer::index_flags() {
  flags_.assign(spec_.tokens.size(), 0);
  for (const AddedToken& t : spec_.added) {
    uint8_t& flags = flags_[static_cast<size_t>(t.id)];
    if ((flags & kAdded) != 0) return corrupt("added token " + std::to_string(t.id) + " appears twice");
    flags = static_cast<uint8_t>(kAdded | (t.special ? kSpecial : 0));
  }
  for (const TokenId id : spec_.end_ids) flags_[static_cast<size_t>(id)] |= kEnd;
  return {};
}

Status Tokenizer::index_spellings() {
  const size_t vocab = spec_.tokens.size();
  id_of_byte_.fill(-1);
  bytes_.resize(vocab);
  id_of_spelling_.reserve(vocab);
  for (size_t i = 0; i < vocab; ++i) {
    const std::string& spelling = spec_.tokens[i];
    const auto id = static_cast<TokenId>(i);
    if (spelling.empty()) continue;
    if (const auto [it, fresh] = id_of_spelling_.emplace(spelling, id); !fresh) {
      return corrupt("tokens " + std::to_string(it->second) + " and " + std::to_string(i) + " are both " +
                     quoted(spelling));
    }
    std::optional<std::string> bytes;
    // An added token is literal, but one printable character may be the vocabulary's entry for that byte as
    // well.
    const bool literal = has_flag(id, kAdded) && (spelling.size() > 1 || has_flag(id, kSpecial));
    if (!literal) bytes = byte_alphabet_decode(spelling);
    bytes_[i] = bytes.value_or(spelling);
    longest_bytes_ = std::max(longest_bytes_, bytes_[i].size());
    if (bytes && bytes->size() == 1) id_of_byte_[static_cast<uint8_t>(bytes->front())] = id;
  }
  return {};
}

void Tokenizer::index_pieces() {
  if (!spec_.ignore_merges) return;
  for (size_t i = 0; i < bytes_.size(); ++i) {
    if (!bytes_[i].empty() && !has_flag(static_cast<TokenId>(i), kAdded)) {
      id_of_piece_.emplace(bytes_[i], static_cast<TokenId>(i));
    }
  }
}

Status Tokenizer::index_added() {
  for (const AddedToken& t : spec_.added) {
    const std::string& spelling = spec_.tokens[static_cast<size_t>(t.id)];
    if (!t.normalized) {
      raw_added_.add(spelling, t);
    } else if (spec_.nfc) {
      ASSIGN_OR_RETURN(const std::string normal, normalize_nfc(spelling));
      normalized_added_.add(normal, t);
    } else {
      normalized_added_.add(spelling, t);
    }
  }
  return {};
}

Status Tokenizer::index_merges() {
  for (size_t rank = 0; rank < spec_.merges.size(); ++rank) {
    const std::string& merge = spec_.merges[rank];
    const auto bad = [&](const char* what) {
      return corrupt("merge " + std::to_string(rank) + " " + quoted(merge) + ": " + what);
    };
    const size_t space = merge.find(' ');
    if (space == std::string::npos || merge.find(' ', space + 1) != std::string::npos)
      return bad("expected 'left right'");
    const std::string left = merge.substr(0, space);
    const std::string right = merge.substr(space + 1);
    const auto l = id_of_spelling_.find(left);
    const auto r = id_of_spelling_.find(right);
    const auto joined = id_of_spelling_.find(left + right);
    if (l == id_of_spelling_.end() || r == id_of_spelling_.end() || joined == id_of_spelling_.end()) {
      return bad("a part or the whole is not in the vocabulary");
    }
    // Otherwise ordinary text could grow into a control token.
    if (has_flag(joined->second, kSpecial)) return bad("makes a control token");
    merges_.add(l->second, r->second, joined->second);
  }
  return {};
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() > kMaxTextBytes) {
    return Status(Code::kInvalidArgument, "tokenizer: text of " + std::to_string(text.size()) +
                                              " bytes, at most " + std::to_string(kMaxTextBytes));
  }
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 3 + 1);
  std::vector<TextSegment> segments;
  raw_added_.split(text, options.parse_special, segments);
  for (const TextSegment& segment : segments) {
    if (segment.id >= 0) {
      ids.push_back(segment.id);
    } else if (spec_.nfc) {
      ASSIGN_OR_RETURN(const std::string normal, normalize_nfc(segment.text));
      TRY(encode_segment(normal, options.parse_special, ids));
    } else {
      TRY(encode_segment(segment.text, options.parse_special, ids));
    }
  }
  if (options.add_bos && spec_.add_bos && (ids.empty() || ids.front() != spec_.bos_id)) {
    ids.insert(ids.begin(), spec_.bos_id);
  }
  return ids;
}

Result<std::vector<TokenId>> Tokenizer::encode_rendered(std::string_view text) const {
  return encode(text, EncodeOptions{.parse_special = true, .add_bos = true});
}

Status Tokenizer::encode_segment(std::string_view text, bool parse_special, std::vector<TokenId>& ids) const {
  std::vector<TextSegment> segments;
  normalized_added_.split(text, parse_special, segments);
  for (const TextSegment& segment : segments) {
    if (segment.id >= 0) {
      ids.push_back(segment.id);
    } else {
      TRY(encode_text(segment.text, ids));
    }
  }
  return {};
}

Status Tokenizer::encode_text(std::string_view text, std::vector<TokenId>& ids) const {
  std::vector<std::string_view> pieces;
  TRY(pre_.split(text, pieces));
  std::vector<TokenId> symbols;
  for (const std::string_view piece : pieces) {
    if (spec_.ignore_merges) {
      if (const auto whole = id_of_piece_.find(piece); whole != id_of_piece_.end()) {
        ids.push_back(whole->second);
        continue;
      }
    }
    symbols.clear();
    for (const char c : piece) {
      const TokenId known = id_of_byte_[static_cast<uint8_t>(c)];
      const TokenId id = known >= 0 ? known : spec_.unknown_id;
      if (id >= 0) symbols.push_back(id);
    }
    merges_.merge(symbols, ids);
  }
  return {};
}

size_t Tokenizer::least_tokens(std::string_view text) const {
  const auto strips = [](const AddedToken& t) { return t.lstrip || t.rstrip; };
  if (std::any_of(spec_.added.begin(), spec_.added.end(), strips)) return 0;  // whitespace without end may go
  const auto counts = [this](char c) {
    return spec_.unknown_id >= 0 || id_of_byte_[static_cast<uint8_t>(c)] >= 0;  // others may be dropped
  };
  const auto bytes = static_cast<size_t>(std::count_if(text.begin(), text.end(), counts));
  return bytes / longest_bytes_ / (spec_.nfc ? kMaxNfcShrinking : 1);
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string out;
  for (const TokenId id : ids) {
    if (!skip_special || !is_special(id)) out.append(token_bytes(id));
  }
  return out;
}

std::string_view Tokenizer::token_bytes(TokenId id) const {
  if (id < 0 || static_cast<size_t>(id) >= bytes_.size()) return {};
  return bytes_[static_cast<size_t>(id)];
}

std::optional<TokenId> Tokenizer::find_token(std::string_view spelling) const {
  const auto it = id_of_spelling_.find(std::string(spelling));
  if (it == id_of_spelling_.end()) return std::nullopt;
  return it->second;
}

}  // namespace isthmus
