#include "core/goodput/fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/error.h"

namespace adaptdl {
namespace {

// The parameters in a row; times as logarithms, because they range over nine decades;
// `overlap` is gamma.
enum Index { alpha_c, beta_c, alpha_n, beta_n, alpha_r, beta_r, overlap, parameters };
using Vector = std::array<double, parameters>;
using Matrix = std::array<Vector, parameters>;

constexpr double kLowest = 1e-8;
constexpr double kSmallestRmse = 1e-13;  // keeps the curvature finite where a fit is exact
constexpr int kMaxIterations = 80;

PerfParams unpack(const Vector& x) {
  return {std::exp(x[alpha_c]),
          std::exp(x[beta_c]),
          std::exp(x[alpha_n]),
          std::exp(x[beta_n]),
          std::exp(x[alpha_r]),
          std::exp(x[beta_r]),
          x[overlap]};
}

struct Row {
  double atomic = 0, beyond_two = kLowest;
  int network = -1;  // alpha_n, alpha_r, or -1 for a single replica
  double log_accum = 0, log_optim = 0;
};

// Value, gradient, and two models of the curvature. With residual vector r, Jacobian J and
// u = r/|r|, the curvature of |r| is J'(I - uu')J/|r| where r is nearly linear: right near a smooth
// minimum, useless near |r| = 0, which is a kink. There J'J/|r| leads in one step to r = 0.
struct Local {
  double value = 0;
  Vector gradient{};
  Matrix smooth{}, kink{};
};

class Problem {
 public:
  explicit Problem(std::span<const PerfObservation> observations) {
    for (const auto& o : observations) {
      Row row;
      row.atomic = o.atomic;
      row.beyond_two = std::max(o.replicas - 2.0, kLowest);
      row.network = o.nodes > 1 ? alpha_n : o.replicas > 1 ? alpha_r : -1;
      row.log_accum = std::log(o.accum_time);
      row.log_optim = std::log(o.optim_time);
      rows_.push_back(row);
    }
  }

  double value(const Vector& x) const { return evaluate(unpack(x), nullptr); }
  Local local(const Vector& x) const {
    Local result;
    result.value = evaluate(unpack(x), &result);
    return result;
  }
  double evaluate(const PerfParams& p, Local* local) const;

 private:
  std::vector<Row> rows_;
};

// Sums of one RMSE term.
struct Residuals {
  double squares = 0;
  Vector jr{};
  Matrix jj{};

  void add(double residual, const Vector& jacobian, bool derive) {
    squares += residual * residual;
    if (!derive) return;
    for (int i = 0; i < parameters; ++i) {
      if (jacobian[i] == 0) continue;
      jr[i] += jacobian[i] * residual;
      for (int j = 0; j <= i; ++j) jj[i][j] += jacobian[i] * jacobian[j];
    }
  }

  double finish(double count, Local* local) const {
    const double rmse = std::sqrt(squares / count);
    if (!local) return rmse;
    const double floor = std::max(rmse, kSmallestRmse);
    for (int i = 0; i < parameters; ++i) {
      const double slope = jr[i] / (count * floor);
      local->gradient[i] += slope;
      for (int j = 0; j <= i; ++j) {
        const double full = jj[i][j] / (count * floor);
        local->kink[i][j] += full;
        local->smooth[i][j] += full - slope * jr[j] / (count * floor * floor);
      }
    }
    return rmse;
  }
};

// q = 1e-2 (beta / alpha)^2 with both as logarithms.
double add_ratio_penalty(double alpha, double beta, int alpha_index, Local* local) {
  const double q = 1e-2 * (beta / alpha) * (beta / alpha);
  if (local) {
    const int a = alpha_index, b = alpha_index + 1;
    local->gradient[a] -= 2 * q;
    local->gradient[b] += 2 * q;
    for (Matrix* curvature : {&local->smooth, &local->kink}) {
      (*curvature)[a][a] += 4 * q;
      (*curvature)[b][b] += 4 * q;
      (*curvature)[b][a] -= 4 * q;
    }
  }
  return q;
}

double Problem::evaluate(const PerfParams& p, Local* local) const {
  Residuals accum, optim;
  const bool derive = local != nullptr;
  for (const auto& row : rows_) {
    const double compute = p.alpha_c + p.beta_c * row.atomic;
    const double log_compute = std::log(compute);
    double alpha = kLowest, beta = kLowest;
    if (row.network >= 0) {
      alpha = row.network == alpha_n ? p.alpha_n : p.alpha_r;
      beta = row.network == alpha_n ? p.beta_n : p.beta_r;
    }
    const double network = alpha + beta * row.beyond_two;
    // log optim_time = larger + log(1 + t) / gamma, t = (smaller / larger)^gamma.
    const double apart = log_compute - std::log(network);
    const double t = std::exp(-p.gamma * std::abs(apart));
    const double log1p_t = std::log1p(t);
    const double log_optim = (apart > 0 ? log_compute : log_compute - apart) + log1p_t / p.gamma;

    Vector jacobian{};
    if (derive) {
      jacobian[alpha_c] = p.alpha_c / compute;
      jacobian[beta_c] = 1 - jacobian[alpha_c];
    }
    accum.add(log_compute - row.log_accum, jacobian, derive);
    if (derive) {
      const double compute_share = (apart > 0 ? 1 : t) / (1 + t);
      jacobian[alpha_c] *= compute_share;
      jacobian[beta_c] *= compute_share;
      if (row.network >= 0) {
        jacobian[row.network] = (1 - compute_share) * alpha / network;
        jacobian[row.network + 1] = (1 - compute_share) - jacobian[row.network];
      }
      jacobian[overlap] = -(log1p_t / p.gamma + std::abs(apart) * t / (1 + t)) / p.gamma;
    }
    optim.add(log_optim - row.log_optim, jacobian, derive);
  }
  const double count = static_cast<double>(rows_.size());
  double value = accum.finish(count, local) + optim.finish(count, local);
  const double over = p.gamma - 1;
  value += 1e-3 * over * over;
  if (local) {
    local->gradient[overlap] += 2e-3 * over;
    local->smooth[overlap][overlap] += 2e-3;
    local->kink[overlap][overlap] += 2e-3;
  }
  value += add_ratio_penalty(p.alpha_n, p.beta_n, alpha_n, local);
  value += add_ratio_penalty(p.alpha_r, p.beta_r, alpha_r, local);
  return value;
}

struct Bounds {
  Vector low, high;
  std::array<bool, parameters> fixed{};
};

// Solves (H + damping diag(H)) step = -gradient over the free variables, by Cholesky. False when
// the damped matrix is not positive definite.
bool solve(const Matrix& h, const Vector& gradient, const std::array<bool, parameters>& free,
           double damping, Vector& step) {
  std::array<int, parameters> index{};
  int n = 0;
  for (int i = 0; i < parameters; ++i) {
    step[i] = 0;
    if (free[i]) index[n++] = i;
  }
  Matrix l{};
  Vector y{};
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j <= i; ++j) {
      double sum = h[index[i]][index[j]];
      if (i == j) sum += damping * sum + 1e-14;
      for (int k = 0; k < j; ++k) sum -= l[i][k] * l[j][k];
      if (i != j) {
        l[i][j] = sum / l[j][j];
      } else if (sum > 0) {
        l[i][i] = std::sqrt(sum);
      } else {
        return false;
      }
    }
    y[i] = -gradient[index[i]];
    for (int k = 0; k < i; ++k) y[i] -= l[i][k] * y[k];
    y[i] /= l[i][i];
  }
  for (int i = n; i-- > 0;) {
    for (int k = i + 1; k < n; ++k) y[i] -= l[k][i] * y[k];
    y[i] /= l[i][i];
    step[index[i]] = y[i];
  }
  return true;
}

// Projected Levenberg-Marquardt on the objective; x is feasible before and after. Returns the
// value.
double minimise(const Problem& problem, const Bounds& bounds, Vector& x) {
  constexpr double kLongestStep = 3;  // in logarithms: a factor of 20
  double damping = 1e-3;
  int stalled = 0;
  bool kink_leads = false;
  Local here = problem.local(x);
  for (int iteration = 0; iteration < kMaxIterations && damping < 1e8; ++iteration) {
    std::array<bool, parameters> free{};
    double slope = 0;
    for (int i = 0; i < parameters; ++i) {
      const bool held = (x[i] <= bounds.low[i] && here.gradient[i] > 0) ||
                        (x[i] >= bounds.high[i] && here.gradient[i] < 0);
      free[i] = !bounds.fixed[i] && !held;
      if (free[i]) slope = std::max(slope, std::abs(here.gradient[i]));
    }
    if (slope < 1e-9) break;
    Vector best = x;
    double best_value = here.value;
    const auto attempt = [&](const Matrix& curvature) {
      Vector step;
      if (!solve(curvature, here.gradient, free, damping, step)) return false;
      // Effects that the models ignore make steps short near the end, so try a longer one too.
      for (const double length : {1.0, 2.0}) {
        Vector next = x;
        for (int i = 0; i < parameters; ++i) {
          const double bounded = std::clamp(length * step[i], -kLongestStep, kLongestStep);
          if (free[i]) next[i] = std::clamp(x[i] + bounded, bounds.low[i], bounds.high[i]);
        }
        const double value = problem.value(next);
        if (value >= best_value) return length > 1;
        best_value = value;
        best = next;
      }
      return true;
    };
    if (!attempt(kink_leads ? here.kink : here.smooth)) {
      if (attempt(kink_leads ? here.smooth : here.kink)) kink_leads = !kink_leads;
    }
    if (best_value >= here.value) {
      damping *= 8;
      continue;
    }
    stalled = here.value - best_value < 1e-6 * here.value + 1e-10 ? stalled + 1 : 0;
    x = best;
    if (stalled == 2) return best_value;
    here = problem.local(x);
    damping = std::max(damping / 6, 1e-9);
  }
  return here.value;
}

// A start from the data: least squares for computation; for the network, the rest of the optimizer
// step if nothing overlaps.
PerfParams suggestion(std::span<const PerfObservation> observations, double gamma) {
  double count = 0, sm = 0, st = 0, smm = 0, smt = 0;
  std::array<double, 2> left{}, seen{};
  for (const auto& o : observations) {
    // The objective uses relative errors, so weight by the time.
    const double weight = 1 / (o.accum_time * o.accum_time);
    count += weight;
    sm += weight * o.atomic;
    st += weight * o.accum_time;
    smm += weight * o.atomic * o.atomic;
    smt += weight * o.atomic * o.accum_time;
    if (o.replicas < 2) continue;
    const double ratio = std::max(o.optim_time / o.accum_time, 1 + 1e-3);
    const int kind = o.nodes > 1 ? 0 : 1;
    left[kind] += o.accum_time * std::pow(std::pow(ratio, gamma) - 1, 1 / gamma);
    seen[kind] += 1;
  }
  const double mean_time = st / count, mean_atomic = sm / count;
  const double spread = smm / count - mean_atomic * mean_atomic;
  double beta = spread > 0 ? (smt / count - mean_atomic * mean_time) / spread : 0;
  beta = std::clamp(beta, 0.01 * mean_time / mean_atomic, 0.99 * mean_time / mean_atomic);
  PerfParams p;
  p.beta_c = beta;
  p.alpha_c = mean_time - beta * mean_atomic;
  p.alpha_n = seen[0] > 0 ? left[0] / seen[0] : 0.1;
  p.alpha_r = seen[1] > 0 ? left[1] / seen[1] : 0.1;
  p.beta_n = 0.05 * p.alpha_n;
  p.beta_r = 0.05 * p.alpha_r;
  p.gamma = gamma;
  return p;
}

void check(std::span<const PerfObservation> observations) {
  if (observations.empty()) fail("no step times to fit: none was measured yet");
  const auto good = [](double value) { return std::isfinite(value) && value > 0; };
  for (const auto& o : observations) {
    if (o.nodes < 1 || o.replicas < o.nodes || !good(o.atomic) || !good(o.accum_time) ||
        !good(o.optim_time)) {
      fail(
          "invalid step time: {} nodes, {} replicas, atomic batch {}, {} s and {} s; all must be "
          "finite and positive, with nodes <= replicas",
          o.nodes, o.replicas, o.atomic, o.accum_time, o.optim_time);
    }
  }
}

}  // namespace

double fit_objective(const PerfParams& params, std::span<const PerfObservation> observations) {
  return Problem(observations).evaluate(params, nullptr);
}

PerfParams fit_perf_params(std::span<const PerfObservation> observations) {
  check(observations);
  bool one_atomic = true, several_nodes = false, one_node = false, beyond_two = false;
  double total_accum = 0;
  for (const auto& o : observations) {
    one_atomic = one_atomic && o.atomic == observations.front().atomic;
    several_nodes = several_nodes || o.nodes > 1;
    one_node = one_node || (o.nodes == 1 && o.replicas > 1);
    beyond_two = beyond_two || o.replicas > 2;
    total_accum += o.accum_time;
  }
  const double lowest = std::log(kLowest);
  Bounds bounds;
  bounds.low.fill(lowest);
  bounds.high.fill(std::log(1e12));
  bounds.low[overlap] = 1;
  bounds.high[overlap] = 10;
  Vector fixed_at;
  fixed_at.fill(lowest);
  if (one_atomic) {
    const double mean = total_accum / static_cast<double>(observations.size());
    fixed_at[alpha_c] = std::log(std::max(mean / 2, kLowest));
    bounds.fixed[alpha_c] = true;
  }
  bounds.fixed[alpha_n] = !several_nodes;
  bounds.fixed[beta_n] = !several_nodes || !beyond_two;
  bounds.fixed[alpha_r] = !one_node;
  bounds.fixed[beta_r] = !one_node || !beyond_two;

  const Problem problem(observations);
  const PerfParams starts[] = {
      suggestion(observations, 1.2),
      suggestion(observations, 4.0),
      {0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001},
  };
  PerfParams best;
  double best_value = std::numeric_limits<double>::infinity();
  for (const auto& start : starts) {
    Vector x{std::log(start.alpha_c),
             std::log(start.beta_c),
             std::log(start.alpha_n),
             std::log(start.beta_n),
             std::log(start.alpha_r),
             std::log(start.beta_r),
             start.gamma};
    for (int i = 0; i < parameters; ++i) {
      x[i] = bounds.fixed[i] ? fixed_at[i] : std::clamp(x[i], bounds.low[i], bounds.high[i]);
    }
    const double value = minimise(problem, bounds, x);
    if (value < best_value) {
      best_value = value;
      best = unpack(x);
    }
  }
  // exp(log(1e-8)) is not exactly 1e-8; return the bound exactly.
  for (double* p :
       {&best.alpha_c, &best.beta_c, &best.alpha_n, &best.beta_n, &best.alpha_r, &best.beta_r}) {
    if (*p < kLowest * (1 + 1e-9)) *p = kLowest;
  }
  if (!several_nodes) {
    best.alpha_n = std::max(best.alpha_n, 1.1 * best.alpha_r);
    best.beta_n = std::max(best.beta_n, 1.1 * best.beta_r);
  }
  return best;
}

}  // namespace adaptdl
