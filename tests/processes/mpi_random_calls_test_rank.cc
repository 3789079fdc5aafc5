// Random calls beside those of MPI: each collective of Tutti gives the bits
// that MPI's own call gives on the same inputs. Part of the program of
// mpi_collectives_test_rank.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/doubles/status_matchers.h"
#include "tests/processes/mpi_collectives_testing.h"
#include "tutti/collective.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace mpi_random_calls_test_rank {

constexpr int kCalls = 2000;  // Of each job; mpirun_test.py runs five.

using Rows = std::vector<int>;

template <typename Element>
MPI_Datatype MpiType() {
  if constexpr (std::is_same_v<Element, float>) return MPI_FLOAT;
  if constexpr (std::is_same_v<Element, double>) return MPI_DOUBLE;
  if constexpr (std::is_same_v<Element, int8_t>) return MPI_INT8_T;
  if constexpr (std::is_same_v<Element, int16_t>) return MPI_INT16_T;
  if constexpr (std::is_same_v<Element, int32_t>) return MPI_INT32_T;
  if constexpr (std::is_same_v<Element, int64_t>) return MPI_INT64_T;
  if constexpr (std::is_same_v<Element, uint8_t>) return MPI_UINT8_T;
  if constexpr (std::is_same_v<Element, uint16_t>) return MPI_UINT16_T;
  if constexpr (std::is_same_v<Element, uint32_t>) return MPI_UINT32_T;
  if constexpr (std::is_same_v<Element, uint64_t>) return MPI_UINT64_T;
  return MPI_DATATYPE_NULL;
}

// Null where MPI has no such type.
MPI_Datatype MpiTypeOf(DType dtype) {
  return VisitDType(dtype,
                    [](auto element) { return MpiType<decltype(element)>(); });
}

MPI_Op MpiOpOf(ReductionKind kind) {
  switch (kind) {
    case ReductionKind::kSum:
      return MPI_SUM;
    case ReductionKind::kProd:
      return MPI_PROD;
    case ReductionKind::kMin:
      return MPI_MIN;
    case ReductionKind::kMax:
      return MPI_MAX;
    case ReductionKind::kBand:
      return MPI_BAND;
    case ReductionKind::kBor:
      return MPI_BOR;
    case ReductionKind::kBxor:
      return MPI_BXOR;
  }
  return MPI_OP_NULL;
}

template <typename T>
T OneOf(const std::vector<T>& choices, std::mt19937& random) {
  return choices[random() % choices.size()];
}

std::vector<DType> DTypesOfMpi(ReductionKind kind) {
  std::vector<DType> dtypes;
  for (const DType dtype : kAllDTypes) {
    if (MpiTypeOf(dtype) == MPI_DATATYPE_NULL) continue;
    if (CheckSupported(kind, dtype).ok()) dtypes.push_back(dtype);
  }
  return dtypes;
}

// A call, the same on all ranks of a job.
struct RandomCall {
  RandomCall(unsigned seed, int size) {
    std::mt19937 random(seed);
    const auto is_true = [&] { return random() % 2 == 0; };
    type = kAllCollectiveTypes[random() % kAllCollectiveTypes.size()];
    kind = kAllReductionKinds[random() % kAllReductionKinds.size()];
    dtype = OneOf(DTypesOfMpi(kind), random);
    rows = OneOf<int>({0, 1, 2, 7, 64, 1001, 20011}, random);
    root = static_cast<int>(random() % static_cast<unsigned>(size));
    is_in_place = is_true();
    determinism = OneOf<Determinism>(
        {Determinism::kByRankOrder, Determinism::kFixedLayout,
         Determinism::kNotGuaranteed},
        random);
    is_uneven = is_true() && HasRankBlocks(type);
    gives_rows = is_true();
    matrix.assign(static_cast<size_t>(size), Rows(static_cast<size_t>(size)));
    for (Rows& sent : matrix) {
      for (int& count : sent) {
        count = is_uneven ? static_cast<int>(random() % (rows + 1)) : rows;
      }
    }
    // In place, each rank sends what it receives.
    for (size_t a = 0; a < matrix.size() && is_in_place; ++a) {
      for (size_t b = 0; b < a; ++b) matrix[a][b] = matrix[b][a];
    }
    for (const Rows& sent : matrix) blocks.push_back(sent[0]);
    if (is_uneven && !gives_rows && OutputIsOwnBlock(type)) {  // Balanced.
      const int total = rows * size + root;
      for (int rank = 0; rank < size; ++rank) {
        blocks[static_cast<size_t>(rank)] =
            total / size + (rank < total % size ? 1 : 0);
      }
    }
    permutation.resize(static_cast<size_t>(size));
    std::iota(permutation.begin(), permutation.end(), 0);
    std::shuffle(permutation.begin(), permutation.end(), random);
  }

  std::string ToString() const {
    return absl::StrCat(Name(type), " ", Name(kind), " ", Name(dtype), " rows ",
                        rows, " root ", root, is_in_place ? " in place" : "",
                        is_uneven ? " uneven" : "",
                        gives_rows ? " given rows, " : ", ", Name(determinism));
  }

  CollectiveType type = CollectiveType::kAllReduce;
  ReductionKind kind = ReductionKind::kSum;
  DType dtype = DType::kFloat32;
  int rows = 0;  // Of a block.
  int root = 0;
  bool is_in_place = false;
  bool is_uneven = false;
  bool gives_rows = false;
  Determinism determinism = Determinism::kNotGuaranteed;
  std::vector<Rows> matrix;  // matrix[a][b] rows go from rank a to rank b.
  Rows blocks;  // Of each rank, in the other collectives with blocks.
  std::vector<int> permutation;
};

Rows OffsetsOf(const Rows& counts) {
  Rows offsets(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), 0);
  return offsets;
}

int TotalOf(const Rows& counts) {
  return std::accumulate(counts.begin(), counts.end(), 0);
}

class MpiRandomCallsTest : public MpiCollectivesTest {
 protected:
  // Elements of this rank's input and output; -1: it has none.
  int InputSize(const RandomCall& c) const {
    if (!HasInput(c.type, rank(), c.root)) return -1;
    const auto me = static_cast<size_t>(rank());
    switch (c.type) {
      case CollectiveType::kReduceScatter:
      case CollectiveType::kScatter:
        return TotalOf(c.blocks);
      case CollectiveType::kAllGather:
      case CollectiveType::kGather:
        return c.blocks[me];
      case CollectiveType::kAllToAll:
        return TotalOf(c.matrix[me]);
      default:
        return c.rows;
    }
  }

  int OutputSize(const RandomCall& c) const {
    if (!HasOutput(c.type, rank(), c.root)) return -1;
    switch (c.type) {
      case CollectiveType::kReduceScatter:
      case CollectiveType::kScatter:
        return c.blocks[static_cast<size_t>(rank())];
      case CollectiveType::kAllGather:
      case CollectiveType::kGather:
        return TotalOf(c.blocks);
      case CollectiveType::kAllToAll:
        return TotalOf(Received(c));
      default:
        return c.rows;
    }
  }

  Rows Received(const RandomCall& c) const {
    Rows counts;
    for (const Rows& sent : c.matrix) {
      counts.push_back(sent[static_cast<size_t>(rank())]);
    }
    return counts;
  }

  CollectiveOp OpOf(const RandomCall& c) const {
    const auto given = [&c](const Rows& counts) {
      return c.is_uneven && c.gives_rows
                 ? std::vector<int64_t>(counts.begin(), counts.end())
                 : std::vector<int64_t>();
    };
    const Rows& sent = c.matrix[static_cast<size_t>(rank())];
    switch (c.type) {
      case CollectiveType::kAllReduce:
        return AllReduce();
      case CollectiveType::kAllGather:
        return AllGather{.uneven = c.is_uneven, .rows = given(c.blocks)};
      case CollectiveType::kReduceScatter:
        return ReduceScatter{.uneven = c.is_uneven, .rows = given(c.blocks)};
      case CollectiveType::kBroadcast:
        return Broadcast{.is_source = rank() == c.root};
      case CollectiveType::kAllToAll:
        if (!c.is_uneven) return AllToAll();
        return AllToAll{.send_rows = {sent.begin(), sent.end()},
                        .recv_rows = given(Received(c))};
      case CollectiveType::kPermute:
        return Permute{.permutation = c.permutation};
      case CollectiveType::kBarrier:
        return Barrier();
      case CollectiveType::kReduce:
        return ReduceToRoot{.root = c.root};
      case CollectiveType::kGather:
        return GatherToRoot{
            .root = c.root, .uneven = c.is_uneven, .rows = given(c.blocks)};
      case CollectiveType::kScatter:
        return ScatterFromRoot{
            .root = c.root, .uneven = c.is_uneven, .rows = given(c.blocks)};
      case CollectiveType::kScan:
        return Scan();
      case CollectiveType::kExscan:
        return Exscan();
    }
    return Barrier();
  }

  // Whole numbers whose sums and products over eight ranks are exact in every
  // dtype of 16 bits or more, and wrap around in the others.
  Tensor InputOf(const RandomCall& c) const {
    const int count = InputSize(c);
    if (count < 0) return Tensor();
    Tensor tensor = *Tensor::Allocate(c.dtype, TensorShape::Vector(count));
    for (int i = 0; i < count; ++i)
      Set(tensor, i, (rank() * 5 + i * 3) % 4 + 1);
    return tensor;
  }

  // The tensors of a call in place: its input or its output is a block of the
  // other, which holds the input.
  void PlaceInPlace(const RandomCall& c, Call* call) const {
    if (!call->input.is_set() || OutputSize(c) < 0) return;
    const auto me = static_cast<size_t>(rank());
    const int begin = OffsetsOf(c.blocks)[me];
    const int end = begin + c.blocks[me];
    if (InputIsOwnBlock(c.type)) {
      call->output =
          *Tensor::Allocate(c.dtype, TensorShape::Vector(TotalOf(c.blocks)));
      Tensor own = *call->output.Slice(begin, end);
      if (own.size_bytes() > 0) {
        std::memcpy(own.mutable_data(), call->input.data(), own.size_bytes());
      }
      call->input = own;
    } else if (OutputIsOwnBlock(c.type)) {
      call->output = *call->input.Slice(begin, end);
    } else {
      call->output = call->input;
    }
  }

  Tensor OutputOfMpi(const RandomCall& c, Tensor input) const {
    const int count = std::max(OutputSize(c), 0);
    Tensor output = *Tensor::Allocate(c.dtype, TensorShape::Vector(count));
    const void* const from = input.data();
    void* const into = output.mutable_data();
    const MPI_Datatype type = MpiTypeOf(c.dtype);
    const MPI_Op op = MpiOpOf(c.kind);
    const MPI_Comm all = MPI_COMM_WORLD;
    const auto me = static_cast<size_t>(rank());
    const Rows& blocks = c.blocks;
    const Rows offsets = OffsetsOf(blocks);
    switch (c.type) {
      case CollectiveType::kAllReduce:
        PMPI_Allreduce(from, into, c.rows, type, op, all);
        break;
      case CollectiveType::kAllGather:
        PMPI_Allgatherv(from, blocks[me], type, into, blocks.data(),
                        offsets.data(), type, all);
        break;
      case CollectiveType::kReduceScatter:
        PMPI_Reduce_scatter(from, into, blocks.data(), type, op, all);
        break;
      case CollectiveType::kBroadcast:
        if (rank() == c.root) output = input;
        PMPI_Bcast(output.mutable_data(), c.rows, type, c.root, all);
        break;
      case CollectiveType::kAllToAll: {
        const Rows& sent = c.matrix[me];
        const Rows received = Received(c);
        PMPI_Alltoallv(from, sent.data(), OffsetsOf(sent).data(), type, into,
                       received.data(), OffsetsOf(received).data(), type, all);
        break;
      }
      case CollectiveType::kPermute: {
        const auto source =
            std::find(c.permutation.begin(), c.permutation.end(), rank()) -
            c.permutation.begin();
        PMPI_Sendrecv(from, c.rows, type, c.permutation[me], 0, into, c.rows,
                      type, static_cast<int>(source), 0, all,
                      MPI_STATUS_IGNORE);
        break;
      }
      case CollectiveType::kBarrier:
        PMPI_Barrier(all);
        break;
      case CollectiveType::kReduce:
        PMPI_Reduce(from, into, c.rows, type, op, c.root, all);
        break;
      case CollectiveType::kGather:
        PMPI_Gatherv(from, blocks[me], type, into, blocks.data(),
                     offsets.data(), type, c.root, all);
        break;
      case CollectiveType::kScatter:
        PMPI_Scatterv(from, blocks.data(), offsets.data(), type, into,
                      blocks[me], type, c.root, all);
        break;
      case CollectiveType::kScan:
        PMPI_Scan(from, into, c.rows, type, op, all);
        break;
      case CollectiveType::kExscan:
        PMPI_Exscan(from, into, c.rows, type, op, all);
        break;
    }
    return output;
  }

  // Runs the call by Tutti and by MPI. Returns what differs; empty if nothing.
  std::string Difference(const RandomCall& c) {
    Call call;
    call.request = RequestOf("", OpOf(c), c.dtype, ShapeOf(c));
    call.request.merge_op =
        Reduces(c.type) ? MergeOp(c.kind) : MergeOp(ReductionKind::kSum);
    call.request.impl_details.determinism = c.determinism;
    call.input = InputOf(c);
    const Tensor input = InputOf(c);  // In-place calls overwrite the other.
    if (c.is_in_place) PlaceInPlace(c, &call);
    Start(call);
    const absl::Status status = call.Wait();
    const Tensor wanted = OutputOfMpi(c, input);
    if (!status.ok()) return status.ToString();
    if (OutputSize(c) < 0) return "";
    if (call.output.size_bytes() != wanted.size_bytes()) {
      return absl::StrCat(call.output.size_bytes(), " bytes, not ",
                          wanted.size_bytes());
    }
    for (size_t i = 0; i < wanted.size_bytes(); ++i) {
      if (call.output.data()[i] == wanted.data()[i]) continue;
      return absl::StrCat("byte ", i, " of ", wanted.size_bytes());
    }
    return "";
  }

  // Shape of this rank's input; of the root's where only the root has one.
  TensorShape ShapeOf(const RandomCall& c) const {
    if (c.type == CollectiveType::kScatter) {
      return TensorShape::Vector(TotalOf(c.blocks));
    }
    const int count = InputSize(c);
    return TensorShape::Vector(count < 0 ? c.rows : count);
  }
};

TEST_F(MpiRandomCallsTest, GiveTheBitsThatMpiGives) {
  for (int seed = 0; seed < kCalls; ++seed) {
    const RandomCall c(static_cast<unsigned>(seed * 8 + size()), size());
    const std::string difference = Difference(c);
    EXPECT_EQ(difference, "") << "seed " << seed << ": " << c.ToString();
    // All ranks end together, so that none waits for one that has ended.
    int differs = difference.empty() ? 0 : 1;
    PMPI_Allreduce(MPI_IN_PLACE, &differs, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (differs != 0) return;
  }
}

}  // namespace mpi_random_calls_test_rank
}  // namespace tutti
