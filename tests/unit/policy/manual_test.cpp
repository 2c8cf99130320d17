#include <cstdlib>
#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/policy/policy.h"

using namespace adaptdl;

namespace {

std::string roff(std::string_view text) {
  std::string result;
  for (const char letter : text)
    result += letter == '-' ? std::string("\\-") : std::string(1, letter);
  return result;
}

// "0 to 3600 s, default 30"; "0 or 1, default 1" for flags.
std::string values(const PolicyOption& option) {
  const std::string unit =
      option.unit.empty() || option.unit == "flag" ? "" : " " + std::string(option.unit);
  const std::string range =
      option.unit == "flag"
          ? "0 or 1"
          : fmt::format("{} to {}{}", format_number(option.low), format_number(option.high), unit);
  return fmt::format("{}, default {}", range, format_number(option.fallback));
}

std::string manual_options(const PolicyInfo& policy) {
  if (policy.options.empty()) return "";
  std::string text = ".PP\nOptions:\n";
  for (const PolicyOption& option : policy.options) {
    std::string doc(option.doc);
    doc.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(doc.front())));
    text += fmt::format(".TP\n\\fB{}\\fR ({})\n{}.\n", roff(option.name), roff(values(option)),
                        roff(doc));
  }
  return text;
}

}  // namespace

TEST_CASE("adaptdl-policy(5) has every policy's options as they are") {
  const std::string path = std::string(ADAPTDL_SOURCE_DIR) + "/man/adaptdl-policy.5";
  std::string page = read_file(path, 1 << 20);
  const std::string before = page, end = ".\\\" END OPTIONS\n";
  for (const PolicyInfo& policy : policies()) {
    CAPTURE(policy.name);
    const std::string begin = fmt::format(".\\\" BEGIN OPTIONS {}\n", policy.name);
    CHECK(page.find(fmt::format("\n.SS {}\n", policy.name)) != std::string::npos);
    const size_t marker = page.find(begin);
    REQUIRE(marker != std::string::npos);
    const size_t from = marker + begin.size(), to = page.find(end, from);
    REQUIRE(to != std::string::npos);
    page.replace(from, to - from, manual_options(policy));
  }
  if (page != before && std::getenv("ADAPTDL_ACCEPT") != nullptr) {
    write_file_atomic(path, page);
    return;
  }
  CHECK_MESSAGE(page == before,
                "man/adaptdl-policy.5 differs from the options of the policies; run this test with "
                "ADAPTDL_ACCEPT=1 to update it");
}
