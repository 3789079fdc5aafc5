#ifndef TUTTI_SCHEDULE_OUTLINE_H_
#define TUTTI_SCHEDULE_OUTLINE_H_

#include <cstdint>
#include <tuple>
#include <vector>

namespace tutti {

// What the ranks of a group do in a collective, round by round, without saying
// with which chunks. Where a plan has steps in the square of the number of
// ranks, its outline may have far fewer: it can be simulated for groups whose
// plans nobody could write down.
//
// A round is all that has the same depth (step_depth.h): round d has the
// transfers of depth d, and the reductions and copies that then follow. Round 0
// has no transfers.
struct OutlineRound {
  // All that one rank sends another, each pair once. A message is a chunk.
  struct Transfer {
    int32_t from = 0;
    int32_t to = 0;
    int64_t chunks = 0;
    friend bool operator==(const Transfer&, const Transfer&) = default;
    friend bool operator<(const Transfer& a, const Transfer& b) {
      return std::tie(a.from, a.to) < std::tie(b.from, b.to);
    }
  };

  // What a rank does on its own, each rank once.
  struct Work {
    int32_t rank = 0;
    int64_t reduced_chunks = 0;
    int64_t copied_chunks = 0;
    friend bool operator==(const Work&, const Work&) = default;
  };

  std::vector<Transfer> transfers;
  std::vector<Work> work;

  void Clear() {
    transfers.clear();
    work.clear();
  }
};

// Immutable.
class Outline {
 public:
  struct Size {
    int num_ranks = 1;
    int num_chunks = 1;
    int num_rounds = 1;

    // Of the rank that needs most memory besides its input and output.
    int64_t scratch_chunks = 0;

    // Rank r + period does what rank r does, `period` ranks further, modulo the
    // number of ranks, which is a multiple. That number itself: no such claim.
    int period = 1;

    // In every round but round 0 each rank sends to the same one, which has no
    // other sender; and in every round all send and work as much as each other.
    bool is_ring = false;

    // At most so many ranks send or work in a round. 0: no such claim.
    int busy_ranks = 0;

    // At most so many transfers has a round. 0: no such claim.
    int64_t most_transfers = 0;

    friend bool operator==(const Size&, const Size&) = default;
  };

  explicit Outline(const Size& size) : size_(size) {}
  Outline(const Outline&) = delete;
  Outline& operator=(const Outline&) = delete;
  virtual ~Outline() = default;

  const Size& size() const { return size_; }

  // Appends what ranks [first, end) send and work in a round, in the order of
  // their numbers. REQUIRES: 0 <= round < num_rounds and 0 <= first <= end <=
  // num_ranks.
  virtual void Append(int round, int first, int end,
                      OutlineRound* into) const = 0;

  // How many chunks of its output `rank` writes for the last time in a round.
  // What follows in a composition may start on them then. REQUIRES: as above.
  virtual int64_t NumResults(int round, int rank) const = 0;

 private:
  const Size size_;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_OUTLINE_H_
