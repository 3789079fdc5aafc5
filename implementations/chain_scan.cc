#include <vector>

#include "implementations/parts/cost.h"
#include "implementations/parts/pipelines.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// Sums go from rank to rank, in k chunks that follow each other. Each rank adds
// its input on the right. With chunks 0, 1 and 2:
//
//   rank 0 --> rank 1 --> rank 2 --> rank 3
//   1.     a0
//   2.     a1         a0+b0
//   3.     a2         a1+b1      (a0+b0)+c0
//   4.                a2+b2      (a1+b1)+c1     and so on.
//
// n - 2 + k transfers in a row of one k-th of the buffer. Every rank but the
// ends receives and sends the buffer once, the least possible: for large
// buffers. In a scan the output is the sum that a rank sends on. In an exscan
// it is the sum that arrives. The chain goes in the order of ranks, whatever
// the layout and the offsets of the subdivisions.
//
// The pipeline of the scans of P. Sanders, J. L. Traeff, "Parallel prefix
// (scan) algorithms for MPI", EuroPVM/MPI 2006.
class Chain {
 public:
  Chain(const PlanRequest& request, ScheduleBuilder& builder)
      : request_(request),
        receives_(builder.AddLane()),
        sends_(builder.AddLane()) {}

  void Add(int chunk) {
    const Sum sum = request_.rank == 0 ? First(chunk) : Next(chunk);
    if (!sends()) return;
    sends_.Send(request_.rank + 1, /*tag=*/chunk, sum.slot, sum.made);
  }

 private:
  struct Sum {
    Slot slot;
    StepRef made;  // Not set: there from the start.
  };

  bool is_exclusive() const { return request_.type == CollectiveType::kExscan; }
  bool sends() const { return request_.rank + 1 < request_.layout.size(); }

  Sum First(int chunk) {
    if (!is_exclusive()) receives_.Copy(Data(chunk), Input(chunk));
    return {.slot = Input(chunk)};
  }

  // Receives the sum of the ranks before, and adds the input.
  Sum Next(int chunk) {
    // In place, an output that arrives waits until the input has been added.
    const bool waits = is_exclusive() && request_.in_place && sends();
    const Slot arrived =
        is_exclusive() && !waits ? Data(chunk) : Scratch(chunk);
    receives_.Recv(request_.rank - 1, /*tag=*/chunk, arrived);
    if (is_exclusive() && !sends()) return {};
    const Slot sum = is_exclusive() ? Scratch(chunk, /*bank=*/1) : Data(chunk);
    const StepRef made = receives_.Reduce(sum, arrived, Input(chunk));
    if (waits) receives_.Copy(Data(chunk), arrived);
    return {.slot = sum, .made = made};
  }

  const PlanRequest& request_;
  ScheduleBuilder::LaneBuilder receives_;
  ScheduleBuilder::LaneBuilder sends_;
};

Schedule Plan(const PlanRequest& request) {
  const int num_chunks = static_cast<int>(request.subdiv_offsets.size());
  ScheduleBuilder builder(num_chunks);
  Chain chain(request, builder);
  for (int chunk = 0; chunk < num_chunks; ++chunk) chain.Add(chunk);
  return builder.Build();
}

std::vector<int> Subdivide(const SubdivisionRequest& request) {
  return OnePipeline(
      NumPieces(request, {.num_rounds = request.layout.size() - 1, .load = 1}));
}

// The first piece passes one link after the other. The others follow it, on all
// links at the same time.
double CostSeconds(const CostQuery& query) {
  const auto pieces = Subdivide({.layout = query.layout, .bytes = query.bytes});
  const auto num_pieces = static_cast<double>(pieces.size());
  const int last = query.layout.size() - 1;
  if (last == 0) return 0;
  const Crossings together = CrossingsOf(
      query, [last](int rank) { return rank < last ? rank + 1 : rank; });
  const double between = together.of_all_processes;
  Traffic traffic;
  traffic.Add(OneWay(query), between, between);
  traffic.Add({}, last - between, last - between);
  traffic.Add(together, num_pieces - 1, num_pieces - 1);
  return traffic.Seconds(query.model,
                         static_cast<double>(query.bytes) / num_pieces);
}

REGISTER_COLLECTIVE(
    ChainScan,
    Scheduled({.traits = {.summary = "sums go from rank to rank, piece by "
                                     "piece: fewest bytes, n - 2 steps and one "
                                     "per piece",
                          .collectives = {CollectiveType::kScan,
                                          CollectiveType::kExscan},
                          .preserves_rank_order = true,
                          .supports_subdivisions = true,
                          .determinism = Determinism::kByRankOrder,
                          .cost_seconds = CostSeconds},
               .plan = Plan,
               .subdivide = Subdivide}));

}  // namespace
}  // namespace tutti
