#ifndef TUTTI_TOOLS_REQUEST_RESULT_WATCH_H_
#define TUTTI_TOOLS_REQUEST_RESULT_WATCH_H_

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/outfeed.h"
#include "tutti/tensor.h"

namespace tutti {

// Summary of a tensor: "float32[2,3], min -1, mean 0.5, max 2" or "int8[0],
// empty". NaNs are only counted: "..., 3 nan".
std::string SummaryOf(const Tensor& tensor);

// Prints a line for each result as soon as its rank has it, without waiting for
// the other ranks: "rank 3: float32[2,3], min -1, mean 0.5, max 2". Results
// pass through the outfeeds of their devices, so that no rank waits for a
// summary or for the terminal.
//
// For one thread, which may block. The results are not copied: nobody may write
// them before Finish() returns.
class ResultWatch {
 public:
  // Device i has rank first_rank + i. All arguments outlive the object. Errors:
  // those of OutfeedReceiver::Create() and Start().
  static absl::StatusOr<std::unique_ptr<ResultWatch>> Start(
      const Environment& environment, const std::vector<Device*>& devices,
      int first_rank, std::ostream& out);

  ~ResultWatch();  // Calls Finish().

  // Observer to attach to the collective.
  const std::shared_ptr<CollectiveObserver>& observer() const {
    return observer_;
  }

  // Waits until all lines are printed. Errors: the error of the first result
  // that could not be printed.
  absl::Status Finish();

 private:
  class Observer;

  ResultWatch(std::unique_ptr<OutfeedReceiver> receiver,
              std::shared_ptr<CollectiveObserver> observer);

  const std::unique_ptr<OutfeedReceiver> receiver_;
  const std::shared_ptr<CollectiveObserver> observer_;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_RESULT_WATCH_H_
