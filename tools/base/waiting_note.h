#ifndef TUTTI_TOOLS_BASE_WAITING_NOTE_H_
#define TUTTI_TOOLS_BASE_WAITING_NOTE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "tools/base/console.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"

namespace tutti {

// Whether a WaitingNote printed the line. `line` has no newline.
bool IsWaitingNote(absl::string_view line);

// Prints on standard error which tasks this task waits for, and for how long it
// will wait. Prints first after two seconds, since most clusters start sooner,
// then every ten.
//
// Thread-safe. `clock` and `console` outlive the object.
class WaitingNote : public std::enable_shared_from_this<WaitingNote> {
 public:
  static std::shared_ptr<WaitingNote> Create(const ClusterSpec& cluster,
                                             absl::Duration start_timeout,
                                             Clock* clock,
                                             const Console& console);

  // Tasks still awaited. An empty list ends the wait.
  void SetMissing(const std::vector<int>& tasks) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the wait: the object prints nothing afterwards.
  void End() { SetMissing({}); }

 private:
  WaitingNote(const ClusterSpec& cluster, absl::Duration start_timeout,
              Clock* clock, const Console& console)
      : cluster_(cluster),
        start_timeout_(start_timeout),
        clock_(clock),
        console_(console) {}

  void SayAfter(absl::Duration delay);
  void Say() ABSL_LOCKS_EXCLUDED(mu_);

  const ClusterSpec cluster_;
  const absl::Duration start_timeout_;
  Clock* const clock_;
  const Console& console_;
  Mutex mu_;
  std::vector<int> missing_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_WAITING_NOTE_H_
