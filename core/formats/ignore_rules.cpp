#include "core/formats/ignore_rules.h"

#include <algorithm>
#include <array>
#include <utility>

namespace adaptdl {
namespace {

// The classes of POSIX in the C locale, whatever the program's locale is.
bool in_class(std::string_view name, unsigned char c, bool& known) {
  const bool lower = c >= 'a' && c <= 'z', upper = c >= 'A' && c <= 'Z';
  const bool digit = c >= '0' && c <= '9', graph = c > 0x20 && c < 0x7f;
  const bool alpha = lower || upper;
  known = true;
  if (name == "alnum") return alpha || digit;
  if (name == "alpha") return alpha;
  if (name == "blank") return c == ' ' || c == '\t';
  if (name == "cntrl") return c < 0x20 || c == 0x7f;
  if (name == "digit") return digit;
  if (name == "graph") return graph;
  if (name == "lower") return lower;
  if (name == "print") return graph || c == ' ';
  if (name == "punct") return graph && !alpha && !digit;
  if (name == "space") return c == ' ' || (c >= '\t' && c <= '\r');
  if (name == "upper") return upper;
  if (name == "xdigit") return digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  known = false;
  return false;
}

// Removes trailing spaces, unless a backslash precedes them.
std::string_view without_trailing_spaces(std::string_view line) {
  size_t end = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\') {
      end = std::min(++i + 1, line.size());
    } else if (line[i] != ' ') {
      end = i + 1;
    }
  }
  return line.substr(0, end);
}

}  // namespace

IgnoreRules::IgnoreRules(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty() && line.front() != '#') add_line(without_trailing_spaces(line));
  }
}

void IgnoreRules::add_line(std::string_view line) {
  Rule rule;
  if (line.starts_with('!')) {
    rule.negated = true;
    line.remove_prefix(1);
  }
  if (line.ends_with('/')) {
    rule.folders_only = true;
    line.remove_suffix(1);
  }
  rule.anchored = line.find('/') != std::string_view::npos;
  if (line.starts_with('/')) line.remove_prefix(1);
  // git compares a pattern's literal prefix separately, and treats the rest as a new pattern: so
  // the asterisks of /a**/b span folders although no slash precedes them.
  const size_t literal = std::min(line.find_first_of("*?[\\"), line.size());
  rule.prefix = line.substr(0, literal);
  if (rule.prefix.empty() && literal == line.size()) return;
  if (compile(line.substr(literal), rule)) rules_.push_back(std::move(rule));
}

bool IgnoreRules::compile(std::string_view pattern, Rule& rule) {
  using Kind = Token::Kind;
  for (size_t i = 0; i < pattern.size();) {
    const char c = pattern[i];
    if (c == '*') {
      const bool begins = i == 0 || pattern[i - 1] == '/';
      size_t end = i;
      while (end < pattern.size() && pattern[end] == '*') ++end;
      const std::string_view rest = pattern.substr(end);
      const bool double_star = end - i >= 2 && begins && rule.anchored;
      if (double_star && rest.starts_with('/')) {
        rule.tokens.push_back({Kind::folders});
        ++end;  // its slash
      } else if (double_star && (rest.empty() || rest.starts_with("\\/"))) {
        rule.tokens.push_back({Kind::everything});
      } else {
        rule.tokens.push_back({Kind::star});
      }
      i = end;
    } else if (c == '?') {
      rule.tokens.push_back({Kind::any});
      ++i;
    } else if (c == '[') {
      if (!compile_set(pattern, ++i)) return false;
      rule.tokens.push_back({Kind::set, 0, sets_.size() - 1});
    } else {
      if (c == '\\' && ++i == pattern.size()) return false;
      rule.tokens.push_back({Kind::literal, pattern[i++]});
    }
  }
  return true;
}

// Parses the set after its opening bracket at `at`, and moves `at` after the closing one. False if
// it is not closed or has an unknown class.
bool IgnoreRules::compile_set(std::string_view pattern, size_t& at) {
  const auto peek = [&](size_t index) { return index < pattern.size() ? pattern[index] : '\0'; };
  std::bitset<256> set;
  const bool negated = peek(at) == '!' || peek(at) == '^';
  if (negated) ++at;
  int from = -1;  // the previous character, the start of a range if '-' follows
  for (bool first = true; first || peek(at) != ']'; first = false) {
    if (at >= pattern.size()) return false;
    char c = pattern[at++];
    const size_t end = pattern.find(']', at);
    if (c == '[' && peek(at) == ':' && end == std::string_view::npos) return false;
    if (c == '-' && from >= 0 && at < pattern.size() && pattern[at] != ']') {
      c = pattern[at++];
      if (c == '\\') {
        if (at >= pattern.size()) return false;
        c = pattern[at++];
      }
      for (int i = from; i <= static_cast<unsigned char>(c); ++i) set.set(static_cast<size_t>(i));
      from = -1;
    } else if (c == '[' && peek(at) == ':' && end > at + 1 && pattern[end - 1] == ':') {
      const std::string_view name = pattern.substr(at + 1, end - at - 2);
      for (size_t i = 0; i < set.size(); ++i) {
        bool known = false;
        if (in_class(name, static_cast<unsigned char>(i), known)) set.set(i);
        if (!known) return false;
      }
      at = end + 1;
      from = -1;
    } else {
      if (c == '\\') {
        if (at >= pattern.size()) return false;
        c = pattern[at++];
      }
      from = static_cast<unsigned char>(c);
      set.set(static_cast<unsigned char>(c));
    }
  }
  ++at;
  if (negated) set.flip();
  set.reset('/');
  sets_.push_back(set);
  return true;
}

// Follows all paths through the pattern at once (as an NFA), so the time is at most tokens times
// characters.
bool IgnoreRules::matches(const Rule& rule, std::string_view text) const {
  using Kind = Token::Kind;
  if (!text.starts_with(rule.prefix)) return false;
  text.remove_prefix(rule.prefix.size());
  const std::vector<Token>& tokens = rule.tokens;
  // here[i]: tokens before i have matched what was read so far. inside[i]: token i, `folders`, is
  // reading towards some slash.
  std::vector<char> here(tokens.size() + 1), next(tokens.size() + 1), inside(tokens.size() + 1);
  const auto skip_empty = [&](std::vector<char>& states) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      const Kind kind = tokens[i].kind;
      if (!states[i]) continue;
      if (kind == Kind::star || kind == Kind::everything || kind == Kind::folders) {
        states[i + 1] = 1;
      }
      if (kind == Kind::folders) inside[i] = 1;
    }
  };
  here[0] = 1;
  skip_empty(here);
  for (const char c : text) {
    std::fill(next.begin(), next.end(), 0);
    for (size_t i = 0; i < tokens.size(); ++i) {
      const Token& token = tokens[i];
      if (token.kind == Kind::folders) {
        if (inside[i] && c == '/') next[i + 1] = 1;
        continue;
      }
      if (!here[i]) continue;
      switch (token.kind) {
        case Kind::literal:
          if (c == token.character) next[i + 1] = 1;
          break;
        case Kind::any:
          if (c != '/') next[i + 1] = 1;
          break;
        case Kind::set:
          if (sets_[token.set][static_cast<unsigned char>(c)]) next[i + 1] = 1;
          break;
        case Kind::star:
          if (c != '/') next[i] = 1;
          break;
        default:
          next[i] = 1;
      }
    }
    skip_empty(next);
    std::swap(here, next);
  }
  return here.back() != 0;
}

IgnoreRules::Verdict IgnoreRules::verdict(std::string_view path, bool is_directory) const {
  const std::string_view name = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
    if (rule->folders_only && !is_directory) continue;
    if (matches(*rule, rule->anchored ? path : name)) {
      return rule->negated ? Verdict::kept : Verdict::ignored;
    }
  }
  return Verdict::none;
}

bool IgnoreRules::ignored(std::string_view path, bool is_directory) const {
  for (size_t slash = path.find('/'); slash != std::string_view::npos;
       slash = path.find('/', slash + 1)) {
    if (verdict(path.substr(0, slash), true) == Verdict::ignored) return true;
  }
  return verdict(path, is_directory) == Verdict::ignored;
}

}  // namespace adaptdl
