#include "runtime/parallel/sparse_rows.h"

#include <algorithm>
#include <cstring>

#include "runtime/comm/communicator.h"
#include "runtime/parallel/gradient_sums.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

at::Tensor make_rows(const at::Tensor& ids, const at::Tensor& values, const at::Tensor& like) {
  return at::_sparse_coo_tensor_unsafe(ids.unsqueeze(0), values, like.sizes(),
                                       values.options().layout(at::kSparse))
      ._coalesced_(true);
}

std::vector<int64_t> shape_of(const at::Tensor& parameter, int64_t rows) {
  std::vector<int64_t> shape = parameter.sizes().vec();
  shape[0] = rows;
  return shape;
}

// memcpy, for which nothing has an address, too.
void copy(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

// One replica's rows in the order of the wire: their numbers, then their values.
class Packed {
 public:
  Packed(const at::Tensor& parameter, int64_t most)
      : parameter_(parameter),
        ids_bytes_(static_cast<size_t>(most) * sizeof(int64_t)),
        row_bytes_(parameter.nbytes() /
                   static_cast<size_t>(std::max<int64_t>(parameter.size(0), 1))),
        bytes_(ids_bytes_ + static_cast<size_t>(most) * row_bytes_) {}

  size_t bytes() const { return bytes_; }

  void write(const at::Tensor& rows, std::byte* to) const {
    const at::Tensor ids = rows._indices().cpu().contiguous();
    const at::Tensor values = rows._values().cpu().contiguous();
    copy(to, ids.const_data_ptr(), ids.nbytes());
    copy(to + ids_bytes_, values.const_data_ptr(), values.nbytes());
  }

  at::Tensor read(const std::byte* from, int64_t count) const {
    const at::Tensor ids = at::empty({count}, at::kLong);
    const at::Tensor values =
        at::empty(shape_of(parameter_, count), at::TensorOptions(parameter_.scalar_type()));
    copy(ids.mutable_data_ptr(), from, ids.nbytes());
    copy(values.mutable_data_ptr(), from + ids_bytes_, values.nbytes());
    return make_rows(ids, values, parameter_);
  }

 private:
  const at::Tensor& parameter_;
  size_t ids_bytes_, row_bytes_, bytes_;
};

at::Tensor mean(std::vector<at::Tensor>& all, const at::Tensor& parameter) {
  const auto type = parameter.scalar_type();
  const auto wide = type == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor sum = all[0].to(wide);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    sum = at::add(sum, all[rank].to(wide)).coalesce();
  }
  const at::Tensor values = sum._values().div(static_cast<double>(all.size())).to(type);
  const auto device = parameter.device();
  return make_rows(sum._indices()[0].to(device), values.to(device), parameter);
}

}  // namespace

bool has_rows(const at::Tensor& gradient) {
  return gradient.is_sparse() && gradient.sparse_dim() == 1;
}

at::Tensor rows_of(const at::Tensor& gradient) {
  const at::NoGradGuard no_grad;
  return has_rows(gradient) ? gradient.coalesce() : gradient.detach().to_sparse(1);
}

at::Tensor values_of(const at::Tensor& gradient) {
  return gradient.is_sparse() ? gradient._values() : gradient;
}

gns::Dots dots_of_rows(const at::Tensor& a, const at::Tensor& b) {
  const at::NoGradGuard no_grad;
  GradientSums sums;
  gns::Dots result;
  sums.add_squares(values_of(a), {}, 1, result.aa);
  sums.add_squares(values_of(b), {}, 1, result.bb);
  if (a.is_sparse() && b.is_sparse()) {
    sums.read();
    const at::Tensor products = at::mul(a.to(at::kDouble), b.to(at::kDouble));
    result.ab = products._values().sum().item<double>();
    return result;
  }
  const auto& rows = a.is_sparse() ? a : b;
  const auto& dense = a.is_sparse() ? b : a;
  const at::Tensor same = dense.detach().index_select(0, rows._indices()[0]);
  gns::Dots shared;
  sums.add_dots(same, rows._values(), {}, shared);
  sums.read();
  result.ab = shared.ab;
  return result;
}

std::vector<at::Tensor> average_rows(comm::Communicator& communicator,
                                     const std::vector<at::Tensor>& parameters,
                                     const std::vector<at::Tensor>& mine) {
  const at::NoGradGuard no_grad;
  const auto ranks = static_cast<size_t>(communicator.size());
  const size_t own = static_cast<size_t>(communicator.rank());
  const size_t tables = parameters.size();
  std::vector<int64_t> counts(tables * ranks);
  for (size_t i = 0; i < tables; ++i) {
    if (mine[i].defined()) counts[own * tables + i] = mine[i]._nnz();
  }
  communicator.all_gather(&counts[own * tables], tables * sizeof(int64_t), counts.data());
  std::vector<at::Tensor> result;
  for (size_t i = 0; i < tables; ++i) {
    int64_t most = 0;
    for (size_t rank = 0; rank < ranks; ++rank) most = std::max(most, counts[rank * tables + i]);
    if (most == 0) {
      const auto options = parameters[i].options().requires_grad(false);
      result.push_back(make_rows(at::empty({0}, options.dtype(at::kLong)),
                                 at::empty(shape_of(parameters[i], 0), options), parameters[i]));
      continue;
    }
    const Packed packed(parameters[i], most);
    std::vector<std::byte> all(packed.bytes() * ranks);
    std::byte* const place = all.data() + packed.bytes() * own;
    if (mine[i].defined()) packed.write(mine[i], place);
    communicator.all_gather(place, packed.bytes(), all.data());
    std::vector<at::Tensor> parts;
    for (size_t rank = 0; rank < ranks; ++rank) {
      parts.push_back(packed.read(all.data() + packed.bytes() * rank, counts[rank * tables + i]));
    }
    result.push_back(mean(parts, parameters[i]));
  }
  return result;
}

}  // namespace adaptdl
