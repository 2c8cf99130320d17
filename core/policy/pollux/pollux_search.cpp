#include "core/policy/pollux/pollux_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/base/rng.h"
#include "core/policy/pollux/pollux_dual.h"

namespace adaptdl {
namespace {

constexpr double kRounding = 1e-11;  // relative; smaller gains are not improvements
// The smallest gain, relative to the running jobs' part of the objective, for which jobs restart.
// Otherwise the next search, which starts from this answer, would often find a slightly better one.
constexpr double kWorthAChange = 1e-3;

class Search {
 public:
  Search(PolluxProblem& problem, uint64_t seed, const SearchBudget& budget)
      : problem_(problem),
        now_(problem.pinned),
        random_(seed),
        work_(budget.work),
        deadline_(budget.deadline) {
    for (size_t j = 0; j < problem.choices.size(); ++j) {
      if (problem.movable[j]) jobs_.push_back(static_cast<int>(j));
    }
  }

  PolluxAnswer run();

 private:
  bool over();
  bool good_enough() const { return total_ >= bound_ - 1e-9 * std::abs(bound_); }
  double value_of(int job) { return problem_.value(job, now_.row(job)); }

  PolluxRow best_row(int job, double price_scale);
  PolluxRow row_for(int job, const PolluxChoice& choice);
  void start_from_present();
  void start_from_counts(const std::vector<int>& counts);
  void start_from_high_prices();
  void put_back(const std::vector<int>& jobs, double price_scale);
  void fill_at(double price_scale);
  void fill();
  int64_t patience_work() const;
  void improve(int64_t stop);
  void improve_again(int64_t stop);
  void choose_jobs_to_take_out();
  bool take_out_and_put_back();
  void start_on_what_is_free();
  void recount();

  PolluxProblem& problem_;
  PolluxAllocation now_;
  Rng random_;
  int64_t work_;
  std::optional<TimePoint> deadline_;
  bool cut_short_ = false;
  int64_t next_look_ = std::numeric_limits<int64_t>::max();  // check the clock when work_ is below
  PolluxDual dual_;
  double bound_ = std::numeric_limits<double>::infinity();
  std::vector<int> jobs_;  // that may move
  double total_ = 0;       // their value
  std::vector<int> out_;   // taken out
  std::vector<int> waiting_;
  std::vector<std::pair<PolluxRow, double>> before_;
};

bool Search::over() {
  if (cut_short_ || work_ <= 0) return true;
  if (deadline_ && work_ <= next_look_) {
    next_look_ = work_ - 20'000;
    cut_short_ = Monotonic::now() >= *deadline_;
  }
  return cut_short_;
}

void Search::recount() {
  total_ = 0;
  for (const int job : jobs_) total_ += value_of(job);
}

// The best choice for the job that fits now, at the prices times `price_scale`.
PolluxRow Search::best_row(int job, double price_scale) {
  const auto j = static_cast<size_t>(job);
  const auto& choices = problem_.choices[j];
  PolluxAllocation::Room room;
  PolluxChoice best;
  double best_worth = problem_.idle_value[j];
  int kind_seen = -1;
  const auto consider = [&](const PolluxChoice& choice, int spanned) {
    const auto kind = static_cast<size_t>(choice.kind);
    const double worth = choice.value - price_scale * (dual_.prices.gpu[kind] * choice.gpus +
                                                       dual_.prices.node[kind] * spanned);
    if (worth <= best_worth) return;
    best = choice;
    best_worth = worth;
  };
  work_ -= static_cast<int64_t>(choices.size());
  for (size_t i = 1; i < choices.size(); ++i) {
    const PolluxChoice& choice = choices[i];
    if (choice.keep) {
      if (now_.can_put(job, problem_.present[j])) consider(choice, choice.spanned);
      continue;
    }
    if (choice.kind != kind_seen) {
      kind_seen = choice.kind;
      room = now_.room(job, kind_seen);
      work_ -= static_cast<int64_t>(now_.nodes(kind_seen).size());
      // All free resources, a size that may not be in the list.
      const int rest = static_cast<int>(std::min<int64_t>(problem_.most[j], room.on_several));
      if (rest > std::max(problem_.least[j], 2) - 1 && room.spanned_nodes > 1 &&
          rest > room.most_on_one) {
        PolluxChoice all{kind_seen, rest, 2};
        all.gpus = rest * problem_.weight(job, kind_seen);
        all.value = problem_.value(job, kind_seen, true, rest);
        consider(all, (rest + room.largest_spanned - 1) / room.largest_spanned);
      }
    }
    if (choice.spanned == 0) {
      if (choice.replicas <= room.most_on_one) consider(choice, 0);
    } else if (choice.replicas <= room.on_several && room.spanned_nodes > 1) {
      const int needed = (choice.replicas + room.largest_spanned - 1) / room.largest_spanned;
      consider(choice, std::max(needed, 2));
    }
  }
  return row_for(job, best);
}

PolluxRow Search::row_for(int job, const PolluxChoice& choice) {
  const PolluxRow& present = problem_.present[static_cast<size_t>(job)];
  if (choice.replicas == 0) return {};
  work_ -= static_cast<int64_t>(now_.nodes(choice.kind).size());
  if (choice.keep) return now_.can_put(job, present) ? present : PolluxRow{};
  return choice.spanned > 0 ? now_.on_several(job, choice.kind, choice.replicas)
                            : now_.on_one(job, choice.kind, choice.replicas);
}

void Search::start_from_present() {
  now_ = problem_.pinned;
  for (const int job : jobs_) {
    const PolluxRow& row = problem_.present[static_cast<size_t>(job)];
    if (now_.can_put(job, row)) now_.put(job, row);
  }
}

// Places unchanged jobs first, then jobs of several replicas on one node, then jobs on several
// nodes, then single replicas.
void Search::start_from_counts(const std::vector<int>& counts) {
  now_ = problem_.pinned;
  const auto choice_of = [&](int job) -> const PolluxChoice& {
    const auto j = static_cast<size_t>(job);
    return problem_.choices[j][static_cast<size_t>(counts[j])];
  };
  const auto rank = [&](int job) {
    const PolluxChoice& choice = choice_of(job);
    const int group = choice.keep                                  ? 0
                      : choice.spanned == 0 && choice.replicas > 1 ? 1
                      : choice.spanned > 0                         ? 2
                                                                   : 3;
    return std::pair(group, -choice.gpus);
  };
  std::vector<int> order = jobs_;
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return rank(a) < rank(b); });
  std::vector<int> left;
  for (const int job : order) {
    if (choice_of(job).replicas == 0) continue;
    PolluxRow row = over() ? PolluxRow{} : row_for(job, choice_of(job));
    if (row.empty()) {
      left.push_back(job);
    } else {
      now_.put(job, std::move(row));
    }
  }
  put_back(left, 1);
}

// At first each job takes the few GPUs that bring most, then more as prices fall: for clusters in
// which the jobs' choices at the right prices do not fit together. Jobs that can only keep their
// allocation come first.
void Search::start_from_high_prices() {
  now_ = problem_.pinned;
  std::vector<int> order = jobs_;
  std::stable_partition(order.begin(), order.end(), [&](int job) {
    return problem_.choices[static_cast<size_t>(job)].size() == 2;
  });
  put_back(order, 16);
  for (const double scale : {8.0, 4.0, 2.0}) fill_at(scale);
}

void Search::put_back(const std::vector<int>& jobs, double price_scale) {
  for (const int job : jobs) {
    if (over()) return;
    now_.put(job, best_row(job, price_scale));
  }
}

// Gives free resources to jobs that gain by them.
void Search::fill_at(double price_scale) {
  for (const int job : jobs_) {
    if (over() || now_.all_free() == 0) return;
    PolluxRow old = now_.row(job);
    const double before = value_of(job);
    now_.remove(job);
    PolluxRow row = best_row(job, price_scale);
    const bool better = problem_.value(job, row) > before;
    now_.put(job, better ? std::move(row) : std::move(old));
  }
}

void Search::fill() {
  for (const double scale : {1.0, 0.5, 0.2, 0.05, 0.0}) fill_at(scale);
}

void Search::choose_jobs_to_take_out() {
  constexpr size_t kMost = 16;
  out_.clear();
  const auto add = [&](int job) {
    if (out_.size() < kMost && std::find(out_.begin(), out_.end(), job) == out_.end()) {
      out_.push_back(job);
    }
  };
  const size_t way = random_.below(4);
  for (size_t n = way; n < 3; ++n) {  // all jobs on one to three nodes, or none
    const int node = static_cast<int>(random_.below(problem_.snapshot.nodes.size()));
    for (const int job : jobs_) {
      const PolluxRow& row = now_.row(job);
      const bool there = std::any_of(row.begin(), row.end(),
                                     [&](const NodeShare& share) { return share.node == node; });
      if (there) add(job);
    }
    work_ -= static_cast<int64_t>(jobs_.size());
  }
  const size_t any = way == 3 ? 2 + random_.below(3) : 1 + random_.below(2);
  for (size_t i = 0; i < any; ++i) add(jobs_[random_.below(jobs_.size())]);
  // If fairness matters, waiting jobs have the largest weight, but they are few.
  waiting_.clear();
  for (const int job : jobs_) {
    const bool could_run = problem_.choices[static_cast<size_t>(job)].size() > 1;
    if (could_run && now_.row(job).empty()) waiting_.push_back(job);
  }
  if (!waiting_.empty() && random_.below(2) == 0) add(waiting_[random_.below(waiting_.size())]);
  for (size_t i = out_.size(); i > 1; --i) std::swap(out_[i - 1], out_[random_.below(i)]);
}

// Returns whether the allocation is better; otherwise it is unchanged.
bool Search::take_out_and_put_back() {
  choose_jobs_to_take_out();
  before_.clear();
  double old_value = 0, new_value = 0;
  for (const int job : out_) {
    before_.emplace_back(now_.row(job), value_of(job));
    old_value += before_.back().second;
    now_.remove(job);
  }
  // Half to twice the prices, because jobs differ in how much they take.
  constexpr double kScales[] = {0.5, 0.7, 0.85, 1, 1.2, 1.5, 2};
  for (const int job : out_) {
    now_.put(job, best_row(job, kScales[random_.below(std::size(kScales))]));
  }
  for (const int job : out_) {
    if (now_.all_free() > 0) {
      now_.remove(job);
      now_.put(job, best_row(job, 0));
    }
    new_value += value_of(job);
  }
  if (new_value > old_value + kRounding * std::abs(total_)) {
    total_ += new_value - old_value;
    return true;
  }
  for (const int job : out_) now_.remove(job);
  for (size_t i = 0; i < out_.size(); ++i) now_.put(out_[i], std::move(before_[i].first));
  return false;
}

// Milliseconds for some hundred accelerators; for larger clusters in proportion to jobs * nodes.
int64_t Search::patience_work() const {
  const auto jobs = static_cast<int64_t>(jobs_.size());
  const auto nodes = static_cast<int64_t>(problem_.snapshot.nodes.size());
  return std::max<int64_t>(700'000, 400 * jobs * nodes);
}

// Until nothing is found for long, or less than `stop` work is left.
void Search::improve(int64_t stop) {
  if (jobs_.empty()) return;
  const int64_t patience = 300 + 4 * static_cast<int64_t>(jobs_.size());
  int64_t tries = 0;
  while (!over() && !good_enough() && work_ > stop && tries < patience) {
    tries = take_out_and_put_back() ? 0 : tries + 1;
  }
}

// A search may end where no exchange of a few jobs helps. So take out a third of the jobs, improve
// what comes of that, and go on from the better answer.
void Search::improve_again(int64_t stop) {
  constexpr int kTimes = 4;
  for (int i = 0; i < kTimes && work_ > stop && !over() && !good_enough(); ++i) {
    const PolluxAllocation best = now_;
    const double best_total = total_;
    std::vector<int> out;
    for (const int job : jobs_) {
      if (random_.below(3) == 0) out.push_back(job);
    }
    for (size_t k = out.size(); k > 1; --k) std::swap(out[k - 1], out[random_.below(k)]);
    for (const int job : out) now_.remove(job);
    put_back(out, 1);
    fill();
    recount();
    improve(stop);
    if (total_ > best_total + kRounding * std::abs(best_total)) continue;
    now_ = best;
    total_ = best_total;
  }
}

// By the objective a job that was just submitted, or has restarted too often, gains nothing by
// starting. It still starts on accelerators that no other job takes.
void Search::start_on_what_is_free() {
  for (const int job : jobs_) {
    const auto j = static_cast<size_t>(job);
    if (!now_.row(job).empty() || problem_.objective.change_factor(job) > 0) continue;
    for (int kind = 0; kind < problem_.objective.kinds() && now_.row(job).empty(); ++kind) {
      PolluxRow row = now_.on_one(job, kind, problem_.least[j]);
      if (row.empty()) row = now_.on_several(job, kind, problem_.least[j]);
      now_.put(job, std::move(row));
    }
  }
}

PolluxAnswer Search::run() {
  start_from_present();
  recount();
  const double present_total = total_;
  double worth_a_change = kRounding * std::abs(total_);
  for (const int job : jobs_) {
    if (!now_.row(job).empty()) worth_a_change += kWorthAChange * std::abs(value_of(job));
  }
  const PolluxAllocation present = now_;

  dual_ = solve_dual(problem_);
  // With several resources one job may take what another hardly needs, so both may get more than
  // their weights allow. Then the dual is a guide, but not a bound.
  const bool bounded = problem_.snapshot.resources.size() == 1;
  if (bounded) bound_ = dual_.bound;
  if (!good_enough() && !over()) {
    fill();
    recount();
  }
  if (!good_enough() && !over()) {
    PolluxAllocation best = now_;
    double best_total = total_;
    const auto consider = [&] {
      fill();
      recount();
      if (total_ <= best_total) return;
      best = now_;
      best_total = total_;
    };
    std::vector<int> counts(problem_.choices.size());
    for (const int job : jobs_) {
      counts[static_cast<size_t>(job)] =
          best_choice(problem_.choices[static_cast<size_t>(job)], dual_.prices);
    }
    start_from_counts(counts);
    consider();
    int64_t exact = std::min<int64_t>(work_, 3'000'000);
    const int64_t limit = exact;
    counts = best_counts(problem_, dual_, std::max(dual_.bound - best_total, 0.0), exact);
    work_ -= limit - exact;
    if (!counts.empty()) {
      double exact_total = 0;
      for (const int job : jobs_) {
        const auto j = static_cast<size_t>(job);
        exact_total += problem_.choices[j][static_cast<size_t>(counts[j])].value;
      }
      if (bounded) bound_ = std::min(bound_, exact_total);
      start_from_counts(counts);
    } else {
      start_from_high_prices();
    }
    consider();
    now_ = best;
    total_ = best_total;
  }
  improve(work_ - patience_work());
  if (total_ > present_total + worth_a_change) {
    improve_again(work_ - patience_work());  // only for an answer that changes something anyway
  } else {
    now_ = present;
    total_ = present_total;
  }
  start_on_what_is_free();
  PolluxAnswer answer;
  answer.cut_short = cut_short_;
  for (int job = 0; job < static_cast<int>(problem_.choices.size()); ++job) {
    answer.rows.push_back(now_.row(job));
    answer.total += value_of(job);
  }
  return answer;
}

}  // namespace

PolluxAnswer search_pollux(PolluxProblem& problem, uint64_t seed, const SearchBudget& budget) {
  return Search(problem, seed, budget).run();
}

}  // namespace adaptdl
