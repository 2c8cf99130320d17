#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/base/error.h"
#include "runtime/data/formats/readers.h"
#include "runtime/data/spill.h"

namespace adaptdl::data {
namespace {

constexpr int32_t kNoToken = -1;
constexpr std::string_view kUnknown = "<unk>";

bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// Of a word; bytes from 0x80 belong to characters of other alphabets.
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

// Bytes of the character that begins here; 1 for what is no UTF-8.
size_t character_size(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  if (size > text.size()) return 1;
  for (size_t i = 1; i < size; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 1;
  }
  return size;
}

// The tokens as a tree: each byte leads from one node to the next.
class Vocabulary {
 public:
  Vocabulary(std::string_view text, const std::string& name) {
    int64_t line = 0;
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      std::string_view written = text.substr(0, end);
      text.remove_prefix(std::min(text.size(), end + 1));
      if (written.ends_with('\r')) written.remove_suffix(1);
      const std::string token = unescaped(written, name, line + 1);
      if (token.empty()) {
        fail("{}:{}: the line is empty; a vocabulary has one token each line", name, line + 1);
      }
      int32_t node = 0;
      for (const char byte : token) {
        const auto [next, added] = edges_.try_emplace(edge(node, byte), nodes());
        if (added) tokens_.push_back(kNoToken);
        node = next->second;
      }
      if (tokens_[static_cast<size_t>(node)] != kNoToken) {
        fail("{}:{}: \"{}\" is there twice, first in line {}", name, line + 1, written,
             tokens_[static_cast<size_t>(node)] + 1);
      }
      tokens_[static_cast<size_t>(node)] = static_cast<int32_t>(line++);
    }
    if (line == 0) fail("{}: is empty", name);
  }

  // The longest token that `text` begins with: its number (kNoToken: there is none) and size.
  std::pair<int32_t, size_t> longest(std::string_view text) const {
    std::pair<int32_t, size_t> best(kNoToken, 0);
    int32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const auto next = edges_.find(edge(node, text[i]));
      if (next == edges_.end()) break;
      node = next->second;
      const int32_t token = tokens_[static_cast<size_t>(node)];
      if (token != kNoToken) best = {token, i + 1};
    }
    return best;
  }

  // The token that is all of `text`, or kNoToken.
  int32_t find(std::string_view text) const {
    const auto [token, size] = longest(text);
    return size == text.size() ? token : kNoToken;
  }

 private:
  static uint64_t edge(int32_t node, char byte) {
    return static_cast<uint64_t>(node) << 8 | static_cast<unsigned char>(byte);
  }
  int32_t nodes() const { return static_cast<int32_t>(tokens_.size()); }

  static std::string unescaped(std::string_view line, const std::string& name, int64_t number) {
    std::string token;
    for (size_t i = 0; i < line.size(); ++i) {
      if (line[i] != '\\') {
        token += line[i];
        continue;
      }
      const char next = i + 1 < line.size() ? line[++i] : '\0';
      const size_t found = std::string_view("ntr\\").find(next);
      if (found == std::string_view::npos || next == '\0') {
        fail("{}:{}: has a \\ before something else than n, t, r or \\; write \\\\ for a backslash",
             name, number);
      }
      token += "\n\t\r\\"[found];
    }
    return token;
  }

  std::unordered_map<uint64_t, int32_t> edges_;
  std::vector<int32_t> tokens_ = {kNoToken};  // that ends at each node; node 0 is the start
};

// Collects tokens.
class TokenWriter {
 public:
  explicit TokenWriter(const std::string& name) : spill_(name) {}

  void add(int32_t token) {
    some_.push_back(token);
    if (some_.size() == 4096) flush();
  }
  Spill::Result finish() {
    flush();
    return spill_.finish();
  }

 private:
  void flush() {
    spill_.append(std::as_bytes(std::span(some_)));
    some_.clear();
  }

  Spill spill_;
  std::vector<int32_t> some_;
};

}  // namespace

Array read_text(std::string_view text, const std::string& name, std::string_view vocabulary,
                const std::string& vocabulary_name, bool words) {
  if (vocabulary.size() > std::numeric_limits<int32_t>::max()) {
    fail("{}: is too large for a vocabulary", vocabulary_name);
  }
  const Vocabulary known(vocabulary, vocabulary_name);
  const int32_t unknown = known.find(kUnknown);
  const bool line_ends = known.find("\n") != kNoToken;
  TokenWriter tokens(name);
  int64_t count = 0;
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    if (words && is_blank(rest[0]) && !(rest[0] == '\n' && line_ends)) {
      ++at;
      continue;
    }
    int32_t token = kNoToken;
    size_t size = 1;
    if (words) {
      while (is_letter(rest[0]) && size < rest.size() && is_letter(rest[size])) ++size;
      token = known.find(rest.substr(0, size));
    } else {
      std::tie(token, size) = known.longest(rest);
      if (token == kNoToken) size = character_size(rest);
    }
    if (token == kNoToken) token = unknown;
    if (token == kNoToken) {
      fail("{}:{}: \"{}\" is not in the vocabulary {}; add it, or a line {}", name,
           1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n'),
           rest.substr(0, std::min<size_t>(size, 40)), vocabulary_name, kUnknown);
    }
    tokens.add(token);
    ++count;
    at += size;
  }
  auto [bytes, owner] = tokens.finish();
  Array array;
  array.name = name;
  array.dtype = DType::int32;
  array.shape = {count};
  array.bytes = bytes.data();
  array.owner = std::move(owner);
  return array;
}

}  // namespace adaptdl::data
