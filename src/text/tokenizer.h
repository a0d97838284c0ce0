// SPDX-License-Identifier: Apache-2.0
// Tokenizer: byte-level BPE, text <-> token ids. Owned by whoever loaded the model; immutable, so any thread
// may call it at once. Supported: the families of SplitRule (SmolLM2, GPT-2, Qwen2/2.5/3, Llama 3), NFC,
// added tokens with lstrip/rstrip/normalized, ignore_merges, BOS. Not supported, and refused by the loaders:
// SentencePiece, WordPiece and Unigram models, single_word added tokens, add_prefix_space, other regexes, an
// automatic EOS. Not a chat template (chat_template.h).
//
// Control tokens in text: one switch decides, parse_special. Off (the default; text of users): the spelling
// "<|im_end|>" becomes ordinary text tokens and can never act as a control token. On (rendered templates): it
// becomes the control token. Added tokens that are not special (e.g. <tool_call> of Qwen2.5) are found in
// both cases, as in the reference.
//
// Bytes: decode(encode(text)) is `text` byte for byte, ill-formed UTF-8 included, as long as no lstrip/rstrip
// token is parsed, NFC leaves the text as it is, and the vocabulary has a token for each byte. Bytes without
// one (21 for SmolLM2: some control characters and bytes that valid UTF-8 hardly has) become unknown_id or,
// without one, are dropped, as in the reference.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "base/token.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer_spec.h"

namespace isthmus {

struct EncodeOptions {
  bool parse_special = false;  // see above: user text stays text unless the caller says otherwise
  bool add_bos = true;         // put BOS first if the model wants one; never a second one
};

class Tokenizer {
 public:
  // Errors: kCorrupt (an id out of range, a merge or spelling that contradicts the vocabulary), kUnsupported.
  static Result<Tokenizer> create(TokenizerSpec spec);

  // Text to ids. kInvalidArgument over 1 GiB, kResourceExhausted when the pre-tokenizer hits its work limit.
  Result<std::vector<TokenId>> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // For the output of a chat template: control tokens are parsed, and BOS is added only if the model wants
  // one and the template has not written it.
  Result<std::vector<TokenId>> encode_rendered(std::string_view text) const;

  // encode() of `text` gives at least so many tokens: a count of bytes against the longest token, so that
  // what is far too long can be refused without being cut into tokens. 0: nothing known.
  size_t least_tokens(std::string_view text) const;

  // The bytes of `ids` joined; not necessarily well-formed UTF-8 (see utf8_lossy, Detokenizer). Ids without a
  // token, such as a padded vocabulary has, add nothing. `skip_special` leaves out special added tokens.
  std::string decode(std::span<const TokenId> ids, bool skip_special) const;

  // Bytes of one token, borrowed from this object; empty for an id without a token.
  std::string_view token_bytes(TokenId id) const;
  // The id whose vocabulary or added spelling is `spelling` (added: literal; vocabulary: byte alphabet).
  std::optional<TokenId> find_token(std::string_view spelling) const;

  bool is_special(TokenId id) const { return has_flag(id, kSpecial); }
  bool is_end(TokenId id) const { return has_flag(id, kEnd); }           // generation stops here
  const std::vector<TokenId>& end_ids() const { return spec_.end_ids; }  // sorted
  TokenId bos_id() const { return spec_.bos_id; }                        // -1: none
  bool adds_bos() const { return spec_.add_bos; }
  size_t vocab_size() const { return spec_.tokens.size(); }  // V, tokens without a spelling included

  // SHA-256 over everything that decides ids: spellings, added tokens with flags, merges, rules, BOS. Part of
  // the identity of cache bytes. end_ids are not in it: where generation stops changes no cached row.
  const Digest& tokenizer_digest() const { return digest_; }

 private:
  enum Flag : uint8_t { kSpecial = 1, kEnd = 2, kAdded = 4 };
  Tokenizer(TokenizerSpec spec, PreTokenizer pre);
  bool has_flag(TokenId id, Flag flag) const {
    return id >= 0 && static_cast<size_t>(id) < flags_.size() &&
           (flags_[static_cast<size_t>(id)] & flag) != 0;
  }
  Status index_flags();
  Status index_spellings();
  void index_pieces();
  Status index_added();
  Status index_merges();
  Status encode_text(std::string_view text, std::vector<TokenId>& ids) const;
  Status encode_segment(std::string_view text, bool parse_special, std::vector<TokenId>& ids) const;

  TokenizerSpec spec_;
  PreTokenizer pre_;
  std::vector<std::string> bytes_;  // [V] what each token stands for
  size_t longest_bytes_ = 1;        // of them
  std::vector<uint8_t> flags_;      // [V] Flag bits
  std::unordered_map<std::string, TokenId> id_of_spelling_;
  std::unordered_map<std::string_view, TokenId> id_of_piece_;  // only with ignore_merges; views into bytes_
  std::array<TokenId, 256> id_of_byte_{};
  AddedTokenMatcher raw_added_;         // found in the text as it comes
  AddedTokenMatcher normalized_added_;  // found after normalization
  MergeTable merges_;
  Digest digest_;
};

}  // namespace isthmus
