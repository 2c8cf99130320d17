#include "core/oci/dockerfile.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/formats/json.h"

namespace adaptdl::oci {
namespace {

constexpr std::string_view kBlank = " \t\r\f\v";
constexpr std::array kNames = {"ADD",        "ARG",     "CMD",    "COPY",  "ENTRYPOINT",
                               "ENV",        "EXPOSE",  "FROM",   "LABEL", "HEALTHCHECK",
                               "MAINTAINER", "ONBUILD", "RUN",    "SHELL", "STOPSIGNAL",
                               "USER",       "VOLUME",  "WORKDIR"};

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::string capitals(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return result;
}

// "# escape=`" before anything else; true if the line is a directive.
bool read_directive(std::string_view line, Dockerfile& file) {
  line = trimmed(line, kBlank);
  if (!line.starts_with('#')) return false;
  line = trimmed(line.substr(1), kBlank);
  const size_t sign = line.find('=');
  if (sign == std::string_view::npos) return false;
  const std::string name = capitals(trimmed(line.substr(0, sign), kBlank));
  const std::string_view value = trimmed(line.substr(sign + 1), kBlank);
  if (name == "ESCAPE" && value == "`") file.escape = '`';
  return name == "ESCAPE" || name == "SYNTAX" || name == "CHECK";
}

Instruction read_instruction(const std::string& whole, int line, const Dockerfile& file) {
  std::string_view rest = trimmed(whole, kBlank);
  const size_t end = std::min(rest.find_first_of(kBlank), rest.size());
  Instruction result{.line = line, .name = capitals(rest.substr(0, end))};
  rest = trimmed(rest.substr(end), kBlank);
  if (std::find(kNames.begin(), kNames.end(), result.name) == kNames.end()) {
    fail_at(file, result, fmt::format("{} is not an instruction", result.name));
  }
  while (rest.starts_with("--")) {
    const size_t stop = std::min(rest.find_first_of(kBlank), rest.size());
    const std::string_view flag = rest.substr(2, stop - 2);
    const size_t sign = std::min(flag.find('='), flag.size());
    result.flags.emplace_back(flag.substr(0, sign),
                              sign < flag.size() ? flag.substr(sign + 1) : std::string_view());
    rest = trimmed(rest.substr(stop), kBlank);
  }
  result.text = rest;
  if (result.text.empty()) fail_at(file, result, fmt::format("{} has no arguments", result.name));
  return result;
}

// The words that end an instruction's here-documents: from <<WORD, <<-WORD and <<"WORD".
std::vector<std::string> here_documents(const Instruction& instruction) {
  std::vector<std::string> ends;
  if (instruction.name != "RUN" && instruction.name != "COPY" && instruction.name != "ADD")
    return {};
  const std::string& text = instruction.text;
  for (size_t at = text.find("<<"); at != text.npos; at = text.find("<<", at + 2)) {
    size_t front = at, begin = at + 2;
    while (front > 0 && text[front - 1] >= '0' && text[front - 1] <= '9') --front;
    if (front > 0 && kBlank.find(text[front - 1]) == kBlank.npos) continue;  // as in $((1<<2))
    if (begin < text.size() && text[begin] == '-') ++begin;
    if (begin < text.size() && (text[begin] == '"' || text[begin] == '\'')) ++begin;
    size_t end = begin;
    while (end < text.size() && is_name(text[end])) ++end;
    if (end > begin) ends.push_back(text.substr(begin, end - begin));
  }
  return ends;
}

// Expands the variable at text[at], a dollar sign; moves `at` after it.
std::string variable(std::string_view text, size_t& at, char quote, const VariableLookup& lookup,
                     const std::function<std::string(std::string_view)>& inner,
                     const std::string& where) {
  size_t end = at + 1;
  const bool braces = end < text.size() && text[end] == '{';
  if (braces) ++end;
  const size_t begin = end;
  while (end < text.size() && is_name(text[end])) ++end;
  const std::string name(text.substr(begin, end - begin));
  if (name.empty() && !braces) {
    ++at;
    return "$";
  }
  const std::optional<std::string> value = lookup(name, quote);
  if (!braces) {
    at = end;
    return value.value_or("");
  }
  const size_t close = text.find('}', end);
  if (name.empty() || close == std::string_view::npos) fail("{}: ${{ has no name or no }}", where);
  const std::string_view how = text.substr(end, close - end);
  at = close + 1;
  const bool set = value && !value->empty();
  if (how.empty()) return value.value_or("");
  if (how.starts_with(":-")) return set ? *value : inner(how.substr(2));
  if (how.starts_with(":+")) return set ? inner(how.substr(2)) : "";
  fail("{}: ${{{}{}}} is not supported; use ${{NAME}}, ${{NAME:-otherwise}} or ${{NAME:+instead}}",
       where, name, how);
}

// `quote` is the quote that is open at the beginning of the text.
std::string expand_within(char quote, std::string_view text, char escape,
                          const VariableLookup& lookup, const std::string& where) {
  const auto inner = [&](std::string_view part) {
    return expand_within(quote, part, escape, lookup, where);
  };
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == escape && quote != '\'' && at + 1 < text.size()) {
      // \$ is a dollar sign; other pairs are for split_words().
      if (text[at + 1] != '$') result += c;
      result += text[at + 1];
      at += 2;
    } else if (c == '$' && quote != '\'') {
      result += variable(text, at, quote, lookup, inner, where);
    } else {
      if (c == quote) {
        quote = '\0';
      } else if (quote == '\0' && (c == '"' || c == '\'')) {
        quote = c;
      }
      result += c;
      ++at;
    }
  }
  return result;
}

// Whether the escape character escapes `c` within double quotes.
bool is_escaped_in_quotes(char c, char escape) {
  return c == '"' || c == '$' || c == escape;
}

// The words between these characters.
std::vector<std::string> words_of(std::string_view text, char escape, std::string_view blank,
                                  const std::string& where) {
  std::vector<std::string> words;
  std::string word;
  bool open = false;
  char quote = '\0';
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const bool escapes = c == escape && quote != '\'' && at + 1 < text.size();
    if (escapes && (quote == '\0' || is_escaped_in_quotes(text[at + 1], escape))) {
      word += text[++at];
      open = true;
    } else if (quote != '\0') {
      if (c == quote) {
        quote = '\0';
      } else {
        word += c;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
      open = true;
    } else if (blank.find(c) != std::string_view::npos) {
      if (open) words.push_back(std::exchange(word, ""));
      open = false;
    } else {
      word += c;
      open = true;
    }
  }
  if (quote != '\0') fail("{}: the quote {} is not closed", where, quote);
  if (open) words.push_back(word);
  return words;
}

}  // namespace

void fail_at(const Dockerfile& file, const Instruction& instruction, const std::string& sentence) {
  fail("{}:{}: {}", file.path, instruction.line, sentence);
}

Dockerfile parse_dockerfile(std::string_view text, const std::string& path) {
  Dockerfile file{path, '\\', {}};
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::string whole;
  bool in_head = true;
  int first = 0;
  std::vector<std::string> ends;  // of open here-documents, the next one last
  const auto take = [&] {
    file.instructions.push_back(read_instruction(whole, first, file));
    whole.clear();
    ends = here_documents(file.instructions.back());
    std::reverse(ends.begin(), ends.end());
    file.instructions.back().here_document = !ends.empty();
  };
  for (int line = 1; !text.empty(); ++line) {
    const size_t end = text.find('\n');
    const std::string_view raw = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    in_head = in_head && read_directive(raw, file);
    const std::string_view content = trimmed(raw, kBlank);
    if (!ends.empty()) {
      if (content == ends.back()) ends.pop_back();
      continue;
    }
    if (content.empty() || content.starts_with('#')) continue;  // also between continued lines
    if (whole.empty()) first = line;
    const bool goes_on = content.back() == file.escape;
    whole += raw.substr(
        0, static_cast<size_t>(content.data() - raw.data()) + content.size() - (goes_on ? 1 : 0));
    if (!goes_on) take();
  }
  if (!trimmed(whole, kBlank).empty()) take();
  return file;
}

std::string escaped(std::string_view value, char escape, char quote) {
  std::string result;
  for (const char c : value) {
    const bool special =
        quote == '"' ? is_escaped_in_quotes(c, escape)
                     : c == escape || c == '"' || c == '\'' || kBlank.find(c) != kBlank.npos;
    if (special) result += escape;
    result += c;
  }
  return result;
}

std::string expand(std::string_view text, char escape, const VariableLookup& lookup,
                   const std::string& where) {
  return expand_within('\0', text, escape, lookup, where);
}

std::vector<std::string> split_words(std::string_view text, char escape, const std::string& where) {
  return words_of(text, escape, kBlank, where);
}

std::string unquoted(std::string_view text, char escape, const std::string& where) {
  const std::vector<std::string> words = words_of(text, escape, "", where);
  return words.empty() ? "" : words[0];
}

bool json_words(std::string_view text, std::vector<std::string>& words) {
  if (!trimmed(text, kBlank).starts_with('[')) return false;
  try {
    const Json list = parse_json(text, "list");
    std::vector<std::string> found;
    for (const Json& item : list) {
      if (!item.is_string()) return false;
      found.push_back(item.get<std::string>());
    }
    words = std::move(found);
    return true;
  } catch (const Error&) {  // then the words are in the shell's form, as in docker
    return false;
  }
}

}  // namespace adaptdl::oci
