#include "implementations/parts/cost.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// Each rank has the sum of a run of ranks that ends with it. The runs double.
// In the step with distance d, a rank sends its sum to the rank d places on.
// It adds the sum from d places before on the left.
//
//   rank     0       1       2         3
//   input    a       b       c         d
//            '------>'------>'-------->'        distance 1
//            a       a+b     b+c       c+d
//            '-------)------>'         |        distance 2
//                    '---------------->'
//            a       a+b     a+(b+c)   (a+b)+(c+d)
//
// ceil(log2 n) steps for any n. In each step a rank sends and receives at most
// the whole buffer: for few bytes. An exscan makes the same sums to send. Its
// outputs are sums of the same arrivals without the rank's own input: no
// transfers more. (W. D. Hillis, G. L. Steele, "Data parallel algorithms",
// Commun. ACM 29, 1986.)
class Doubling {
 public:
  Doubling(const PlanRequest& request, ScheduleBuilder& builder)
      : request_(request), builder_(builder), lane_(builder.AddLane()) {}

  void Add() {
    if (request_.rank == 0 && !is_exclusive()) lane_.Copy(Data(0), Input(0));
    for (int distance = 1; distance < request_.layout.size(); distance *= 2) {
      if (Sends(distance)) Send(request_.rank + distance);
      if (request_.rank >= distance) Receive(distance);
    }
  }

 private:
  bool is_exclusive() const { return request_.type == CollectiveType::kExscan; }
  bool Sends(int distance) const {
    return request_.rank + distance < request_.layout.size();
  }

  // Sends of a sum go on while the next sum is made: each sum has separate
  // memory.
  void Send(int to) {
    const bool is_input = sum_ == Input(0);
    const StepRef sent = builder_.AddLane().Send(to, /*tag=*/0, sum_, summed_);
    if (is_input && request_.in_place) input_read_ = sent;
  }

  void Receive(int distance) {
    const int from = request_.rank - distance;
    const bool is_last = request_.rank < 2 * distance;
    const Slot arrived = is_exclusive() && is_last && distance == 1 && IsFree()
                             ? Data(0)
                             : Scratch(0, num_banks_++);
    lane_.Recv(from, /*tag=*/0, arrived);
    if (!is_exclusive()) {
      const Slot into = is_last ? Data(0) : Scratch(0, num_banks_++);
      AddToSum(arrived, into, is_last ? input_read_ : StepRef());
      return;
    }
    if (Sends(2 * distance)) {
      AddToSum(arrived, Scratch(0, num_banks_++), /*after=*/{});
    }
    AddToResult(arrived, distance == 1, is_last);
  }

  // Returns true if the output may be overwritten at once.
  bool IsFree() const { return !request_.in_place || !Sends(1); }

  void AddToSum(Slot arrived, Slot into, StepRef after) {
    summed_ = lane_.Reduce(into, arrived, sum_, after);
    sum_ = into;
  }

  // Adds to the result of an exscan.
  void AddToResult(Slot arrived, bool is_first, bool is_last) {
    if (is_first) {
      result_ = arrived;
      if (!is_last || arrived == Data(0)) return;
      lane_.Copy(Data(0), arrived, input_read_);
    } else if (is_last) {
      lane_.Reduce(Data(0), arrived, result_, input_read_);
    } else {
      lane_.Reduce(result_, arrived, result_);
    }
  }

  const PlanRequest& request_;
  ScheduleBuilder& builder_;
  ScheduleBuilder::LaneBuilder lane_;
  int num_banks_ = 0;
  Slot sum_ = Input(0);  // Of the run.
  StepRef summed_;       // Not set: there from the start.
  Slot result_;          // Of an exscan: the run without this rank.

  // In place: the send that reads the input, which the output overwrites.
  StepRef input_read_;
};

Schedule Plan(const PlanRequest& request) {
  ScheduleBuilder builder(/*num_chunks=*/1);
  Doubling(request, builder).Add();
  return builder.Build();
}

double CostSeconds(const CostQuery& query) {
  const int size = query.layout.size();
  Traffic traffic;
  for (int distance = 1; distance < size; distance *= 2) {
    const Crossings crossings = CrossingsOf(query, [=](int rank) {
      return rank + distance < size ? rank + distance : rank;
    });
    traffic.Add(crossings, /*messages=*/1, /*blocks=*/1);
  }
  return traffic.Seconds(query.model, static_cast<double>(query.bytes));
}

REGISTER_COLLECTIVE(
    RecursiveDoublingScan,
    Scheduled({.traits = {.summary = "sums of runs that double, in rank order: "
                                     "log2 n steps",
                          .collectives = {CollectiveType::kScan,
                                          CollectiveType::kExscan},
                          .preserves_rank_order = true,
                          .determinism = Determinism::kByRankOrder,
                          .cost_seconds = CostSeconds},
               .plan = Plan}));

}  // namespace
}  // namespace tutti
