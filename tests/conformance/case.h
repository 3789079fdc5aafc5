#ifndef TUTTI_TESTS_CONFORMANCE_CASE_H_
#define TUTTI_TESTS_CONFORMANCE_CASE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "schedule/proof/verifier.h"
#include "tutti/collective.h"
#include "tutti/params.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti::conformance {

using Bytes = std::vector<std::byte>;

// Required result of reductions of floating-point elements.
enum class Rounding : uint8_t {
  kAny,    // Magnitudes differ, so that sums tell the order of summation;
           // infinities, NaNs and denormals are rare.
  kNever,  // Sums and products of 16 are exact in any order.
};

// Random elements; the same seed gives the same ones. Integers have all values.
Bytes RandomElements(DType dtype, int64_t num_elements, Rounding rounding,
                     uint64_t seed);

// The devices of a group.
struct Grid {
  int tasks = 1;
  int devices = 1;  // Of each task.
  int size() const { return tasks * devices; }
};

enum class Subdivisions : uint8_t { kAuto, kOne, kThree };

// Collective that all members ask for. The functions below follow the
// definition of each collective, without the library.
struct Case {
  CollectiveType type = CollectiveType::kAllReduce;
  Grid grid;

  // Ranks are dealt out to the tasks in turn; else they follow each other.
  bool deals_ranks = false;

  DType dtype = DType::kFloat32;

  // Rows of the buffer, or of each block where it has one for each rank.
  int64_t length = 0;

  // Rows of blocks that differ, as CollInstanceParams::rows; replaces `length`.
  std::vector<int64_t> rows;

  // Members give the rows themselves, each as far as it has to know them. Else
  // they exchange them, or where the input is cut the rows are balanced.
  bool gives_rows = false;

  int64_t row_elements = 1;
  int root = 0;                  // Where HasRoot(type).
  std::vector<int> permutation;  // Permute only.
  Subdivisions subdivisions = Subdivisions::kAuto;
  InPlace in_place = InPlace::kNone;
  bool allocates_output = false;  // Not the caller.
  MergeOp merge_op;
  FinalOp final_op;
  bool has_factors = false;  // Members give FactorOf() as their input's factor.

  // Instances of the group that must have been launched before.
  std::vector<InstanceKey> dependencies;
};

// "2x4": tasks x devices.
std::string ToString(const Grid& grid);

// All that makes the case what it is, in one line.
std::string ToString(const Case& c);

// Whether buffers have one block for each rank.
bool HasBlocks(CollectiveType type);

// Whether the member's input and output are the same memory, one a part of the
// other where they differ in size.
bool IsInPlace(const Case& c, int rank);

// Elements that `from` has for `to`. REQUIRES: HasBlocks(c.type).
int64_t BlockElements(const Case& c, int from, int to);

// Elements of the rank's buffers, if it has them.
int64_t InputElements(const Case& c, int rank);
int64_t OutputElements(const Case& c, int rank);

// Index at which the rank's own block begins among the blocks of all ranks.
int64_t OwnBlockBegin(const Case& c, int rank);

// Factor by which the rank's input is multiplied; sums stay exact.
std::optional<double> FactorOf(const Case& c, int rank);

// Inputs, from rank 0 on, that the rank gets the reduction of.
int NumMerged(const Case& c, int rank);

// A buffer of so many elements.
TensorShape ShapeOf(const Case& c, int64_t num_elements);

// Ranks on tasks.
GroupLayout LayoutOf(const Case& c);

// Position of the rank's device in the order of tasks, then of devices.
int DeviceIndex(const Case& c, int rank);

// The offsets that the case gives; none for kAuto.
std::vector<int> SubdivOffsets(Subdivisions subdivisions);

// Requests of the ranks, in rank order; equal requests are one object.
std::vector<std::shared_ptr<const CollectiveRequest>> RequestsOf(
    const Case& c, const std::string& implementation, InstanceKey key);

}  // namespace tutti::conformance

#endif  // TUTTI_TESTS_CONFORMANCE_CASE_H_
