#pragma once

// The lexical half of reading comma-separated values; csv.h reads tables with a header row.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace adaptdl {

// Scans comma-separated values field by field. Lines end with LF or CRLF; a field may be in double
// quotes. Borrows both arguments; one thread at a time. Inline, because it reads gigabytes of
// training data.
class CsvScanner {
 public:
  CsvScanner(std::string_view text, const std::string& name) : text_(text), name_(name) {
    if (text_.substr(0, 3) == "\xef\xbb\xbf") place_ = 3;  // a byte order mark
  }

  bool at_end() const { return place_ >= text_.size(); }
  int64_t line() const { return line_; }

  void skip_line() {
    const size_t end = text_.find('\n', place_);
    place_ = end == std::string_view::npos ? text_.size() : end + 1;
    ++line_;
  }

  // Skips the line if there is nothing on it.
  bool skip_blank_line() {
    size_t end = place_;
    while (end < text_.size() && (text_[end] == ' ' || text_[end] == '\t' || text_[end] == '\r')) {
      ++end;
    }
    if (end < text_.size() && text_[end] != '\n') return false;
    skip_line();
    return true;
  }

  // The next field, a part of the text without quotes and surrounding blanks (a doubled quote
  // inside stays doubled). `last`: the line ends after it. Throws Error "NAME:LINE: ..." for an
  // unclosed quote, or text after a closing quote.
  std::string_view field(bool& last) {
    size_t start = place_;
    while (start < text_.size() && (text_[start] == ' ' || text_[start] == '\t')) ++start;
    std::string_view result;
    if (start < text_.size() && text_[start] == '"') {
      const int64_t opened = line_;
      size_t end = start + 1;
      for (;; ++end) {
        if (end >= text_.size()) fail("{}:{}: a quote is not closed", name_, opened);
        if (text_[end] == '\n') ++line_;
        if (text_[end] != '"') continue;
        if (end + 1 >= text_.size() || text_[end + 1] != '"') break;
        ++end;
      }
      result = text_.substr(start + 1, end - start - 1);
      place_ = end + 1;
      while (!at_end() && (text_[place_] == ' ' || text_[place_] == '\t')) ++place_;
      if (!at_end() && text_[place_] != ',' && text_[place_] != '\n' && text_[place_] != '\r') {
        fail("{}:{}: text follows a closing quote; only a comma or the end of the line may", name_,
             line_);
      }
    } else {
      const size_t end = std::min(text_.find_first_of(",\n", start), text_.size());
      result = text_.substr(start, end - start);
      place_ = end;
      if (!result.empty() && result.back() == '\r' && (at_end() || text_[place_] == '\n')) {
        result.remove_suffix(1);
      }
    }
    if (!at_end() && text_[place_] == '\r') ++place_;
    last = at_end() || text_[place_] != ',';
    if (!at_end()) ++place_;
    if (last) ++line_;
    return without_blanks(result);
  }

 private:
  static std::string_view without_blanks(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return text;
  }

  std::string_view text_;
  const std::string& name_;
  size_t place_ = 0;
  int64_t line_ = 1;
};

}  // namespace adaptdl
