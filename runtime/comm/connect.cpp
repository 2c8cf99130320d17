#include "runtime/comm/connect.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <utility>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "runtime/comm/cpu/cpu_communicator.h"
#include "runtime/comm/cpu/endpoint.h"
#include "runtime/comm/cpu/link.h"
#include "runtime/comm/cpu/listener.h"
#include "runtime/comm/cpu/wire.h"

namespace adaptdl::comm {
namespace {

constexpr uint32_t kBuffers = 8;  // of a group on one host
constexpr uint32_t kMaxChunk = 128 << 10;
constexpr uint32_t kMinChunk = 16 << 10;
// Before a launcher gives up a newcomer, so that it hears why; SYN packets that were lost are sent
// again for the last time after 15 s.
constexpr std::chrono::seconds kDialPatience{20};
constexpr std::chrono::seconds kAnswerPatience{5};  // at an address, if there are others
constexpr size_t kSegmentBudget = 32 << 20;         // target maximum of one host's segment, bytes

Layout make_layout(uint64_t generation, int rank, const std::vector<Endpoint>& endpoints) {
  Layout layout;
  layout.generation = generation;
  layout.rank = rank;
  layout.size = static_cast<int>(endpoints.size());
  std::map<std::string, size_t> index;
  for (int i = 0; i < layout.size; ++i) {
    const auto [at, fresh] =
        index.try_emplace(endpoints[static_cast<size_t>(i)].host, layout.hosts.size());
    if (fresh) layout.hosts.emplace_back();
    auto& ranks = layout.hosts[at->second];
    if (i == rank) {
      layout.host = static_cast<int>(at->second);
      layout.lane = static_cast<int>(ranks.size());
    }
    ranks.push_back(i);
  }
  return layout;
}

// Gives the same result on all hosts: their chunks must have the same size.
SegmentOffer make_offer(const Layout& layout) {
  size_t most = 1;
  for (const auto& ranks : layout.hosts) most = std::max(most, ranks.size());
  const auto rounds = static_cast<uint32_t>(2 * layout.round());
  const uint32_t buffers = layout.host_count() == 1 ? kBuffers : rounds;
  const size_t fitting = kSegmentBudget / (buffers * (most + 2)) / 4096 * 4096;
  SegmentOffer offer;
  offer.generation = layout.generation;
  offer.lanes = static_cast<uint32_t>(layout.lanes());
  offer.buffers = buffers;
  offer.chunk_bytes = static_cast<uint32_t>(std::clamp<size_t>(fitting, kMinChunk, kMaxChunk));
  return offer;
}

class Connecting {
 public:
  Connecting(Listener& listener, const GroupOptions& options)
      : listener_(listener.impl()), options_(options), patience_{options.deadline, options.abort} {
    const int size = static_cast<int>(options.endpoints.size());
    if (options.rank < 0 || options.rank >= size || size > static_cast<int>(kMaxRanks)) {
      fail("connect: rank {} in a group of {}", options.rank, size);
    }
    if (options.links < 1 || options.links > kMaxLinks) {
      fail("connect: {} links between hosts; 1 to {} are possible", options.links, kMaxLinks);
    }
    for (const auto& json : options.endpoints) endpoints_.push_back(parse_endpoint(json));
    if (endpoint(options.rank).unix_name != listener_.endpoint().unix_name) {
      fail("connect: endpoint {} of the group is not this process's", options.rank);
    }
    layout_ = make_layout(options.generation, options.rank, endpoints_);
    control_.resize(endpoints_.size());
    if (leader()) data_.resize(layout_.hosts.size());
    expected_ = listener_.expect(options.generation, {static_cast<uint32_t>(options.rank),
                                                      static_cast<uint32_t>(size), links()});
  }
  ~Connecting() { listener_.forget(options_.generation); }

  std::unique_ptr<Communicator> run() {
    patience_.check();
    if (layout_.size == 1) return alone(options_.generation);
    std::unique_ptr<Segment> segment;
    if (leader()) segment = std::make_unique<Segment>(make_offer(layout_));
    for (int rank = 0; rank < options_.rank; ++rank) {
      control_[static_cast<size_t>(rank)] = dial(rank, LinkKind::control);
      if (!data_link_with(rank)) continue;
      spread_.next_host();
      auto& data = data_[host_of(rank)];
      while (data.size() < links()) data.push_back(dial(rank, LinkKind::data));
    }
    await_higher_ranks();
    if (layout_.lanes() > 1) {
      if (leader()) {
        hand_over(*segment);
      } else {
        segment = receive_segment();
      }
    } else {
      ADAPTDL_CHECK(leader());
    }
    CpuCommunicator::Links links{describe(), std::move(used_)};
    return std::make_unique<CpuCommunicator>(layout_, std::move(segment), std::move(control_),
                                             std::move(data_), std::move(links), options_.device);
  }

 private:
  const Endpoint& endpoint(int rank) const { return endpoints_[static_cast<size_t>(rank)]; }
  uint16_t links() const { return static_cast<uint16_t>(options_.links); }
  bool leader() const { return layout_.lane == 0; }
  bool same_host(int rank) const { return endpoint(rank).host == endpoint(options_.rank).host; }
  size_t host_of(int rank) const {
    for (size_t host = 0; host < layout_.hosts.size(); ++host) {
      if (std::ranges::count(layout_.hosts[host], rank) != 0) return host;
    }
    return 0;
  }
  bool data_link_with(int rank) const {
    return leader() && !same_host(rank) && layout_.hosts[host_of(rank)].front() == rank;
  }

  std::string name(int rank) const {
    const auto at = static_cast<size_t>(rank);
    return at < options_.names.size() ? options_.names[at] : fmt::format("rank {}", rank);
  }
  std::string who(int rank) const {
    return fmt::format("generation {}: {}", options_.generation, name(rank));
  }
  [[noreturn]] void gone(int rank) const {
    throw Aborted(who(rank) + " died or gave up while the group was connecting");
  }
  [[noreturn]] void late(int rank) const { fail("{} did not connect in time", who(rank)); }
  void check(Outcome outcome, int rank) const {
    if (outcome == Outcome::closed) gone(rank);
    if (outcome == Outcome::late) late(rank);
  }

  // Opens a link to a lower rank. When this returns, that rank has called connect() too.
  Stream dial(int rank, LinkKind kind) {
    if (!same_host(rank)) return dial_host(rank, kind);
    Dialled dialled = dial_abstract(endpoint(rank).unix_name, patience_);
    if (!dialled.socket) throw Aborted(who(rank) + " is unreachable: " + dialled.problem);
    Stream stream(std::move(dialled.socket));
    const std::string problem = introduce(stream, rank, kind, true);
    if (!problem.empty()) fail("{}: {}", who(rank), problem);
    return stream;
  }

  // By the first of its addresses at which that member answers; links for data by another than
  // those before, if it has one.
  Stream dial_host(int rank, LinkKind kind) {
    auto addresses = leading_away(endpoint(rank).tcp, listener_.own_addresses());
    if (kind == LinkKind::data) addresses = spread_.order(std::move(addresses));
    Dialling dialling(addresses);
    const TimePoint until = std::min(options_.deadline, Monotonic::now() + kDialPatience);
    while (auto found = dialling.next(until, patience_.cancel())) {
      const int socket = found->socket.get();
      tune_tcp(socket);
      Stream stream = listener_.to_host(std::move(found->socket), TlsSide::client);
      std::string problem = introduce(stream, rank, kind, dialling.exhausted());
      if (problem.empty()) {
        if (kind == LinkKind::data && spread_.used(addresses, found->which)) {
          note_use(socket, rank, addresses[found->which]);
        }
        return stream;
      }
      dialling.failed(found->which, std::move(problem));
    }
    patience_.check();
    throw Unreachable(
        fmt::format("{} on {} cannot reach {} on {}: {}", name(options_.rank),
                    endpoint(options_.rank).name, name(rank), endpoint(rank).name,
                    addresses.empty() ? "it does not listen on TCP" : dialling.problems()),
        rank);
  }

  void note_use(int socket, int rank, const TcpAddress& there) {
    const std::string here = local_address(socket);
    used_.push_back({endpoint(options_.rank).name, here, interface_of(here)});
    used_.push_back({endpoint(rank).name, there.host, there.interface});
  }

  // Proves to each other that both know the secret, and waits until the other one has called
  // connect(), too. "": done; else why it is not that member. `last`: of its addresses; then what
  // it does is the member's own doing.
  std::string introduce(Stream& stream, int rank, LinkKind kind, bool last) const {
    Patience patience = patience_;
    if (!last) patience.deadline = std::min(patience.deadline, Monotonic::now() + kAnswerPatience);
    const auto missed = [&](Outcome outcome) -> std::string {
      if (last) check(outcome, rank);
      if (outcome == Outcome::closed) return "closed the connection";
      return outcome == Outcome::late ? "connected, but says nothing" : "";
    };
    std::string problem = shake_hands(stream, rank, patience, last);
    if (!problem.empty()) return problem;
    Hello hello;
    hello.kind = kind;
    hello.generation = options_.generation;
    hello.from = static_cast<uint32_t>(options_.rank);
    hello.to = static_cast<uint32_t>(rank);
    hello.size = static_cast<uint32_t>(layout_.size);
    hello.links = links();
    random_bytes(hello.nonce);
    problem = missed(send_whole(stream, encode(hello), patience));
    if (!problem.empty()) return problem;
    uint8_t challenge[kProofBytes];
    problem = missed(receive_whole(stream, challenge, patience));
    if (!problem.empty()) return problem;
    const auto answer = answer_challenge(listener_.secret(), hello, challenge);
    if (!answer) return "it does not know this run's secret";
    check(send_whole(stream, *answer, patience_), rank);
    uint8_t bytes[kVerdictBytes];
    check(receive_whole(stream, bytes, patience_), rank);
    const auto verdict = parse_verdict(bytes);
    if (!verdict) return "it sent an unknown message";
    if (verdict->status == Status::stale) {
      throw Aborted(fmt::format("generation {} is over: rank {} is at generation {}",
                                options_.generation, rank, verdict->generation));
    }
    if (verdict->status != Status::wrong_place) return "";
    return "another replica answers, or it has another list of members or number of links";
  }

  // As introduce().
  std::string shake_hands(Stream& stream, int rank, const Patience& patience, bool last) const {
    for (;;) {
      switch (stream.shake_hands()) {
        case IoState::done:
          return "";
        case IoState::later:
          if (patience.wait(stream.fd(), stream.wants())) break;
          if (last) late(rank);
          return "connected, but says nothing";
        case IoState::closed:
          if (!stream.problem().empty()) return stream.problem();
          if (last) gone(rank);
          return "closed the connection";
      }
    }
  }

  void await_higher_ranks() {
    for (;;) {
      for (auto& arrival : listener_.take(*expected_)) {
        const int rank = static_cast<int>(arrival.hello.from);
        if (arrival.hello.kind == LinkKind::control) {
          control_[static_cast<size_t>(rank)] = std::move(arrival.stream);
        } else if (data_link_with(rank) && data_[host_of(rank)].size() < links()) {
          data_[host_of(rank)].push_back(std::move(arrival.stream));
        }
      }
      const int missing = first_missing();
      if (missing < 0) return;
      wait_for_arrival(missing);
    }
  }

  int first_missing() const {
    for (int rank = options_.rank + 1; rank < layout_.size; ++rank) {
      if (!control_[static_cast<size_t>(rank)]) return rank;
      if (data_link_with(rank) && data_[host_of(rank)].size() < links()) return rank;
    }
    return -1;
  }

  // Waits until something arrives. If an established link closes, the attempt fails.
  void wait_for_arrival(int missing) const {
    patience_.check();
    std::vector<pollfd> watched{{expected_->event.get(), POLLIN, 0}};
    watched.push_back({options_.abort != nullptr ? options_.abort->fd() : -1, POLLIN, 0});
    for (const Stream& stream : control_) watched.push_back({stream.fd(), POLLRDHUP, 0});
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(options_.deadline - Monotonic::now());
    if (left.count() <= 0) late(missing);
    const int timeout = static_cast<int>(std::min<int64_t>(left.count(), 60'000));
    if (poll(watched.data(), watched.size(), timeout) < 0 && errno != EINTR) {
      fail_errno(errno, "cannot wait for the members (poll)");
    }
    patience_.check();
    for (size_t rank = 0; rank < control_.size(); ++rank) {
      if (watched[rank + 2].revents != 0) gone(static_cast<int>(rank));
    }
  }

  void hand_over(const Segment& segment) {
    const std::string offer = encode(segment.offer());
    for (const int rank : layout_.hosts[static_cast<size_t>(layout_.host)]) {
      if (rank == options_.rank) continue;
      check(send_fd(control_[static_cast<size_t>(rank)], offer, segment.fd(), patience_), rank);
    }
  }

  std::unique_ptr<Segment> receive_segment() {
    const int from = layout_.hosts[static_cast<size_t>(layout_.host)].front();
    uint8_t bytes[kSegmentOfferBytes];
    auto memory = receive_fd(control_[static_cast<size_t>(from)], bytes, patience_);
    if (!memory) {
      if (Monotonic::now() >= options_.deadline) late(from);
      gone(from);
    }
    const auto offer = parse_segment_offer(bytes);
    const SegmentOffer expected = make_offer(layout_);
    if (!offer || offer->generation != expected.generation || offer->lanes != expected.lanes ||
        offer->buffers != expected.buffers || offer->chunk_bytes != expected.chunk_bytes) {
      fail("{} offered shared memory of another shape: do all members run the same version?",
           who(from));
    }
    return std::make_unique<Segment>(std::move(*memory), expected);
  }

  std::string describe() const {
    std::string text;
    for (int rank = 0; rank < layout_.size; ++rank) {
      if (rank == options_.rank) continue;
      const size_t host = host_of(rank);
      std::string way;
      if (same_host(rank)) {
        way = "shared memory";
      } else if (data_link_with(rank)) {
        for (const Stream& link : data_[host]) {
          way += (way.empty() ? "" : ", ") + describe_socket(link.fd());
        }
      } else {
        way = fmt::format("through ranks {} and {}, control {}",
                          layout_.hosts[static_cast<size_t>(layout_.host)].front(),
                          layout_.hosts[host].front(),
                          describe_socket(control_[static_cast<size_t>(rank)].fd()));
      }
      text += fmt::format("{}rank {}: {}", text.empty() ? "" : "\n", rank, way);
    }
    return text;
  }

  Listener::Impl& listener_;
  const GroupOptions& options_;
  const Patience patience_;
  std::vector<Endpoint> endpoints_;
  Layout layout_;
  std::vector<Stream> control_;            // by rank
  std::vector<std::vector<Stream>> data_;  // by host
  Spread spread_;                          // of the links for data
  std::vector<UsedAddress> used_;
  std::shared_ptr<Listener::Impl::Expected> expected_;
};

}  // namespace

std::unique_ptr<Communicator> connect(Listener& listener, const GroupOptions& options) {
  return Connecting(listener, options).run();
}

}  // namespace adaptdl::comm
