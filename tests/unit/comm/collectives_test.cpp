// Property tests: every collective against a simple computation in one place, with random sizes,
// types and ranks, over shared memory, TCP and mixtures.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "tests/unit/comm/group.h"

using namespace adaptdl;
using namespace adaptdl::comm;
using namespace adaptdl::comm::testing;

namespace {

float from_bf16(uint16_t value) {
  const uint32_t bits = static_cast<uint32_t>(value) << 16;
  float wide;
  std::memcpy(&wide, &bits, sizeof wide);
  return wide;
}
uint16_t to_bf16(float value) {  // to nearest even
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint32_t upper = bits >> 16, rest = bits & 0xffff;
  return static_cast<uint16_t>(upper + (rest > 0x8000 || (rest == 0x8000 && (upper & 1)) ? 1 : 0));
}

// From 0 to 7: sums are exact in every type, so results can be compared for equality whatever the
// order.
using Values = std::vector<uint8_t>;

std::vector<uint8_t> encode_values(const Values& values, Type type) {
  std::vector<uint8_t> bytes(values.size() * size_of(type));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto put = [&](auto value) {
      std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
    };
    switch (type) {
      case Type::f32:
        put(static_cast<float>(values[i]));
        break;
      case Type::f64:
        put(static_cast<double>(values[i]));
        break;
      case Type::f16:
        put(static_cast<_Float16>(static_cast<float>(values[i])));
        break;
      case Type::bf16:
        put(to_bf16(static_cast<float>(values[i])));
        break;
      case Type::i64:
        put(static_cast<int64_t>(values[i]));
        break;
      case Type::i32:
        put(static_cast<int32_t>(values[i]));
        break;
      case Type::u8:
        put(values[i]);
        break;
    }
  }
  return bytes;
}

double decode_value(const std::vector<uint8_t>& bytes, size_t i, Type type) {
  const auto get = [&](auto value) {
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    return value;
  };
  switch (type) {
    case Type::f32:
      return get(float{});
    case Type::f64:
      return get(double{});
    case Type::f16:
      return static_cast<float>(get(_Float16{}));
    case Type::bf16:
      return from_bf16(get(uint16_t{}));
    case Type::i64:
      return static_cast<double>(get(int64_t{}));
    case Type::i32:
      return get(int32_t{});
    case Type::u8:
      return get(uint8_t{});
  }
  return 0;
}

Values values_of(uint32_t seed, int rank, size_t count) {
  // Of the standard's engines each call is many, where a sanitizer watches.
  uint64_t state = (uint64_t{seed} << 32) + static_cast<uint64_t>(rank) + 1;
  Values values(count);
  for (uint8_t& value : values) {
    state = state * 6364136223846793005 + 1442695040888963407;  // Knuth's MMIX
    value = static_cast<uint8_t>(state >> 61);
  }
  return values;
}

// What one element should be, computed as the contract says.
double expected(const std::vector<Values>& all, size_t i, Op op) {
  double result = all[0][i];
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const double value = all[rank][i];
    if (op == Op::max) result = std::max(result, value);
    if (op == Op::min) result = std::min(result, value);
    if (op == Op::sum || op == Op::average) result += value;
  }
  return result;
}

double averaged(double sum, int size, Type type) {
  const double exact = sum / size;
  switch (type) {
    case Type::f32:
      return static_cast<float>(static_cast<float>(sum) / static_cast<float>(size));
    case Type::f64:
      return exact;
    case Type::f16:
      return static_cast<float>(
          static_cast<_Float16>(static_cast<float>(sum) / static_cast<float>(size)));
    case Type::bf16:
      return from_bf16(to_bf16(static_cast<float>(sum) / static_cast<float>(size)));
    default:
      return std::trunc(exact);
  }
}

constexpr Type kTypes[] = {Type::f32, Type::f64, Type::f16, Type::bf16,
                           Type::i64, Type::i32, Type::u8};
constexpr Op kOps[] = {Op::sum, Op::average, Op::max, Op::min};

size_t random_count(std::mt19937& random, size_t most) {
  // Small and large sizes alike, and the edges of chunks.
  const double exponent = std::uniform_real_distribution<>(0, std::log2(double(most)))(random);
  const size_t count = static_cast<size_t>(std::exp2(exponent));
  return random() % 8 == 0 ? 0 : random() % 4 == 0 ? (count + 4095) / 4096 * 4096 : count;
}

// The same random sequence of collectives on all ranks, each checked.
void exercise(Communicator& communicator, uint32_t seed, int rounds, size_t most) {
  const int rank = communicator.rank(), size = communicator.size();
  std::mt19937 random(seed);
  for (int round = 0; round < rounds_of(rounds); ++round) {
    const uint32_t data_seed = static_cast<uint32_t>(random());
    const Type type = kTypes[random() % std::size(kTypes)];
    const Op op = kOps[random() % std::size(kOps)];
    const size_t count = random_count(random, most);
    const int root = static_cast<int>(random() % static_cast<uint32_t>(size));
    const int spectator = static_cast<int>(random() % static_cast<uint32_t>(size));
    const bool in_place = random() % 2 == 0;
    const size_t bytes = count * size_of(type);
    size_t wrong = 0;
    switch (random() % 4) {
      case 0: {
        std::vector<Values> all;
        for (int r = 0; r < size; ++r) all.push_back(values_of(data_seed, r, count));
        auto mine = encode_values(all[static_cast<size_t>(rank)], type);
        communicator.all_reduce(mine.data(), count, type, op);
        for (size_t i = 0; i < count; ++i) {
          double value = expected(all, i, op);
          if (op == Op::average) value = averaged(value, size, type);
          wrong += decode_value(mine, i, type) != value;
        }
        break;
      }
      case 1: {
        const auto sent = encode_values(values_of(data_seed, root, count), type);
        std::vector<uint8_t> mine = rank == root ? sent : std::vector<uint8_t>(bytes, 0xee);
        const bool keep = rank != spectator || rank == root;
        communicator.broadcast(keep ? mine.data() : nullptr, bytes, root, keep);
        wrong = keep ? mine != sent : mine != std::vector<uint8_t>(bytes, 0xee);
        break;
      }
      case 2: {
        const auto mine = encode_values(values_of(data_seed, rank, count), type);
        std::vector<uint8_t> all(bytes * static_cast<size_t>(size));
        uint8_t* own = all.data() + bytes * static_cast<size_t>(rank);
        if (in_place && bytes > 0) std::memcpy(own, mine.data(), bytes);
        communicator.all_gather(in_place ? own : mine.data(), bytes, all.data());
        for (int r = 0; r < size; ++r) {
          const auto theirs = encode_values(values_of(data_seed, r, count), type);
          wrong += !std::equal(theirs.begin(), theirs.end(),
                               all.begin() + static_cast<std::ptrdiff_t>(bytes) * r);
        }
        break;
      }
      default:
        communicator.barrier();
    }
    if (wrong != 0) {
      fail("seed {} round {}: {} wrong of {} elements of type {} op {} rank {} of {}", seed, round,
           wrong, count, static_cast<int>(type), static_cast<int>(op), rank, size);
    }
  }
}

// One letter per rank: its host.
std::vector<std::string> hosts_of(const std::string& letters) {
  std::vector<std::string> hosts;
  for (const char letter : letters) hosts.emplace_back(1, letter);
  return hosts;
}

}  // namespace

TEST_CASE("collectives agree with a simple computation in shared memory") {
  for (int size = 1; size <= 8; ++size) {
    CAPTURE(size);
    with_group(one_host(size), [&](Communicator& communicator) {
      CHECK(communicator.size() == size);
      CHECK(communicator.hosts() == 1);
      exercise(communicator, static_cast<uint32_t>(size), size <= 4 ? 60 : 25, 200'000);
    });
  }
}

TEST_CASE("collectives agree with a simple computation over TCP") {
  for (const int size : {2, 3, 4, 5, 6, 7, 8, 17}) {
    CAPTURE(size);
    with_group(many_hosts(size), [&](Communicator& communicator) {
      const int rounds = size <= 4 ? 50 : size <= 8 ? 20 : 5;
      exercise(communicator, 100 + static_cast<uint32_t>(size), rounds, 200'000);
    });
  }
}

TEST_CASE("collectives agree with a simple computation over several links") {
  for (const std::string letters : {"ab", "abc", "aabb"}) {
    CAPTURE(letters);
    Listeners listeners(hosts_of(letters));
    listeners.links = 3;
    in_threads(static_cast<int>(letters.size()), [&](int rank) {
      const auto communicator = listeners.connect(rank);
      exercise(*communicator, 300 + static_cast<uint32_t>(letters.size()), 40, 200'000);
    });
  }
}

TEST_CASE("collectives agree with a simple computation in mixed groups") {
  for (const std::string letters : {"aab", "abb", "aabb", "abab", "aabbc", "abcabc", "aaaabbcd"}) {
    CAPTURE(letters);
    with_group(hosts_of(letters), [&](Communicator& communicator) {
      CHECK(communicator.hosts() == letters.back() - 'a' + 1);
      exercise(communicator, 200 + static_cast<uint32_t>(letters.size()), 25, 200'000);
    });
  }
}

TEST_CASE("sums of floats are taken in rank order, or host by host, the same on every rank") {
  constexpr size_t kCount = 70'000;
  const auto values = [&](int rank) {
    std::mt19937 random(static_cast<uint32_t>(rank));
    std::vector<float> mine(kCount);
    for (float& value : mine) value = std::uniform_real_distribution<float>(-1, 1)(random);
    return mine;
  };
  for (const size_t count : {size_t{100}, kCount}) {
    std::vector<float> sum = values(0);
    for (int rank = 1; rank < 4; ++rank) {
      const auto more = values(rank);
      for (size_t i = 0; i < kCount; ++i) sum[i] += more[i];
    }
    for (const std::string letters : {"aaaa", "abcd"}) {
      CAPTURE(letters);
      with_group(letters == "aaaa" ? one_host(4) : hosts_of(letters), [&](Communicator& c) {
        auto mine = values(c.rank());
        c.all_reduce(mine.data(), count, Type::f32, Op::sum);
        CHECK(std::memcmp(mine.data(), sum.data(), count * sizeof(float)) == 0);
      });
    }
    // Large: a sum for each host first.
    for (const std::string letters : {"aabb", "abbb", "aabc", "abab"}) {
      CAPTURE(letters);
      std::vector<std::vector<float>> sums;
      for (char host = 'a'; host <= 'd'; ++host) {
        std::vector<float> of_host;
        for (int rank = 0; rank < 4; ++rank) {
          if (letters[static_cast<size_t>(rank)] != host) continue;
          const auto more = values(rank);
          if (of_host.empty()) of_host.resize(kCount, -0.0f);
          for (size_t i = 0; i < kCount; ++i) of_host[i] += more[i];
        }
        if (!of_host.empty()) sums.push_back(of_host);
      }
      std::vector<float> by_host = sums[0];
      for (size_t host = 1; host < sums.size(); ++host) {
        for (size_t i = 0; i < kCount; ++i) by_host[i] += sums[host][i];
      }
      const std::vector<float>& expected = count == kCount ? by_host : sum;
      with_group(hosts_of(letters), [&](Communicator& c) {
        auto mine = values(c.rank());
        c.all_reduce(mine.data(), count, Type::f32, Op::sum);
        CHECK(std::memcmp(mine.data(), expected.data(), count * sizeof(float)) == 0);
      });
    }
  }
}

TEST_CASE("an average of f16 exists where a host's sum is too large for it") {
  for (const std::string letters : {"aaaa", "aabb", "aaab", "abcc", "aaaaab"}) {
    for (const size_t count : {size_t{100}, size_t{100'000}}) {
      CAPTURE(letters);
      CAPTURE(count);
      with_group(letters == "aaaa" ? one_host(4) : hosts_of(letters), [&](Communicator& c) {
        std::vector<_Float16> values(count, static_cast<_Float16>(40000.0f));
        c.all_reduce(values.data(), count, Type::f16, Op::average);
        const auto wrong = [](_Float16 value) { return static_cast<float>(value) != 40000.0f; };
        CHECK(std::count_if(values.begin(), values.end(), wrong) == 0);
      });
    }
  }
}

TEST_CASE("special floats") {
  with_group(one_host(3), [](Communicator& c) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float inf = std::numeric_limits<float>::infinity();
    std::vector<float> values{c.rank() == 1 ? nan : 1.0f, c.rank() == 2 ? inf : 2.0f};
    auto most = values;
    c.all_reduce(most.data(), 2, Type::f32, Op::max);
    CHECK(std::isnan(most[0]));
    CHECK(most[1] == inf);
    c.all_reduce(values.data(), 2, Type::f32, Op::sum);
    CHECK(std::isnan(values[0]));
    CHECK(values[1] == inf);
    uint16_t wide = c.rank() == 1 ? 0x7fff : 0x3f80;  // a NaN whose rounding would overflow; 1
    c.all_reduce(&wide, 1, Type::bf16, Op::sum);
    CHECK(std::isnan(from_bf16(wide)));
  });
}

TEST_CASE("data need no more alignment than their type") {
  with_group(one_host(2), [](Communicator& c) {
    for (const size_t count : {size_t{10}, size_t{100'003}}) {
      std::vector<float> memory(count + 8);
      for (size_t offset = 0; offset < 8; ++offset) {
        std::fill(memory.begin(), memory.end(), 1.0f);
        c.all_reduce(memory.data() + offset, count, Type::f32, Op::sum);
        CHECK(memory[offset] == 2.0f);
        CHECK(memory[offset + count - 1] == 2.0f);
        CHECK(std::count(memory.begin(), memory.end(), 1.0f) == 8);
      }
    }
  });
}

TEST_CASE("a group of one") {
  auto c = alone(7);
  float value = 3;
  c->all_reduce(&value, 1, Type::f32, Op::average);
  CHECK(value == 3);
  CHECK(all_gather_values(*c, value) == std::vector<float>{3});
  c->barrier();
  CHECK_THROWS_AS(c->broadcast(&value, 4, 1), Error);
  c->abort("enough");
  CHECK_THROWS_WITH_AS(c->barrier(), "enough", Aborted);
}
