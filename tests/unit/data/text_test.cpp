#include <doctest/doctest.h>

#include "runtime/data/formats/readers.h"
#include "tests/unit/data/fixtures.h"

using namespace adaptdl::data;
using adaptdl::DataSource;
using adaptdl::DataSpec;
using adaptdl::TemporaryDirectory;
using namespace fixtures;

namespace {

std::vector<int32_t> tokens(const std::string& text, const std::string& vocabulary,
                            bool words = false) {
  const Array array = read_text(text, "x.txt", vocabulary, "v.txt", words);
  std::vector<int32_t> result(static_cast<size_t>(array.elements()));
  std::memcpy(result.data(), array.bytes, result.size() * sizeof(int32_t));
  return result;
}

std::string text_error(const std::string& text, const std::string& vocabulary, bool words = false) {
  return error_of([&] { tokens(text, vocabulary, words); });
}

}  // namespace

TEST_CASE("text: the longest piece counts") {
  CHECK(tokens("abcabx", "a\nab\nabcd\nb\nc\nx\n") == std::vector<int32_t>{1, 4, 1, 5});
  CHECK(tokens("a b\n\\", "a\nb\n \n\\n\n\\\\") == std::vector<int32_t>{0, 2, 1, 3, 4});
  // One character that is not there is one token, whatever its bytes.
  CHECK(tokens("a\u00e9\u20acb\xff", "<unk>\na\r\nb") == std::vector<int32_t>{1, 0, 0, 2, 0});
  CHECK(contains(text_error("a\na?", "a\n\\n"), "x.txt:2: \"?\" is not in the vocabulary v.txt"));
}

TEST_CASE("text: words") {
  const std::string vocabulary = "<unk>\nthe\ncat\n.\nd\u00e9j\u00e0\nit's\n'\ns\nit";
  CHECK(tokens("the  cat.\nThe d\u00e9j\u00e0, it's", vocabulary, true) ==
        std::vector<int32_t>{1, 2, 3, 0, 4, 0, 8, 6, 7});
  CHECK(tokens("the\ncat \n", vocabulary + "\n\\n\n", true) == std::vector<int32_t>{1, 9, 2, 9});
  CHECK(contains(text_error("the\nthen", "the", true), "x.txt:2: \"then\" is not in"));
}

TEST_CASE("text: a wrong vocabulary names its line") {
  CHECK(contains(text_error("a", ""), "v.txt: is empty"));
  CHECK(contains(text_error("a", "a\n\nb"), "v.txt:2: the line is empty"));
  CHECK(contains(text_error("a", "a\nb\na"), "v.txt:3: \"a\" is there twice, first in line 1"));
  CHECK(contains(text_error("a", "a\n\\x"), "v.txt:2: has a \\"));
}

TEST_CASE("text: windows of tokens, and of those that follow them") {
  const TemporaryDirectory folder;
  write(folder, "x.txt", "abcdefgh");
  write(folder, "v.txt", "a\nb\nc\nd\ne\nf\ng\nh\n");
  DataSource source;
  source.format = DataSource::Format::text;
  source.path = "x.txt";
  source.window = source.window_stride = 3;
  DataSpec spec;
  const auto read = [&](int64_t row) {
    std::vector<std::vector<int64_t>> windows;
    const Data data = open_data(spec, folder.path());
    for (const auto& column : data.train.columns()) {
      windows.push_back(rows<int64_t>(*column, {row}));
    }
    return windows;
  };
  spec.train = {source, source};
  spec.train[1].window_shift = 1;
  CHECK(read(1) == std::vector<std::vector<int64_t>>{{'d', 'e', 'f'}, {'e', 'f', 'g'}});
  for (DataSource& each : spec.train) {
    each.tokens = DataSource::Tokens::pieces;
    each.vocabulary = "v.txt";
  }
  CHECK(read(1) == std::vector<std::vector<int64_t>>{{3, 4, 5}, {4, 5, 6}});
  const Fingerprint before = open_data(spec, folder.path()).train.fingerprint();
  write(folder, "v.txt", "b\na\nc\nd\ne\nf\ng\nh\n");
  CHECK(open_data(spec, folder.path()).train.fingerprint().content != before.content);
  spec.train[0].vocabulary = "gone.txt";
  CHECK(contains(error_of([&] { read(0); }), "gone.txt: vocabulary not found"));
}
