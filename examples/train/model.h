#ifndef TUTTI_EXAMPLES_TRAIN_MODEL_H_
#define TUTTI_EXAMPLES_TRAIN_MODEL_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "examples/train/data.h"

namespace train {

// A perceptron with one hidden layer: 64 pixels, 32 rectified linear units, 10
// classes. Its parameters are one flat array: the weights of the hidden layer,
// unit by unit, its biases, and the same of the output layer. A gradient is an
// array of the same layout.
inline constexpr int kNumHidden = 32;
inline constexpr int kNumParameters =
    kNumHidden * (kNumPixels + 1) + kNumClasses * (kNumHidden + 1);

// Random weights, no biases; the same bits for a seed on every machine.
std::vector<float> InitialParameters(uint32_t seed);

enum class Layer { kHidden, kOutput };

// A piece of the flat array: the weights of one unit, or a layer's biases.
struct Part {
  std::string name;  // "hidden/weights/31", "output/biases"
  Layer layer = Layer::kHidden;
  std::optional<int> unit;  // None: the biases.
  int begin = 0;
  int size = 0;
};

// All of the array, in its order.
const std::vector<Part>& Parts();

// The gradient of the mean cross-entropy over some examples, part by part, in
// whatever order: the constructor finds what all parts follow from.
class Backpropagation {
 public:
  // REQUIRES: there is an example. The examples outlive the object.
  Backpropagation(absl::Span<const float> parameters,
                  absl::Span<const Example> examples);

  // The mean cross-entropy, in nats.
  double loss() const { return loss_; }

  // Sets `gradient`, of part.size elements.
  void Compute(const Part& part, absl::Span<float> gradient) const;

 private:
  // Of one example. An error is how the loss changes with what comes into a
  // unit.
  struct Pass {
    std::array<float, kNumHidden> activations;
    std::array<float, kNumHidden> hidden_errors;
    std::array<float, kNumClasses> output_errors;
  };

  const absl::Span<const Example> examples_;
  std::vector<Pass> passes_;  // In the order of the examples.
  double loss_ = 0;
};

// All parts: sets `gradient` to that of the mean cross-entropy over `examples`,
// which it returns, in nats. REQUIRES: both arrays have kNumParameters
// elements, and there is an example.
double ComputeGradient(absl::Span<const float> parameters,
                       absl::Span<const Example> examples,
                       absl::Span<float> gradient);

struct Quality {
  double loss = 0;      // Mean cross-entropy, in nats.
  double accuracy = 0;  // The share whose most probable class is right.
};

// REQUIRES: as ComputeGradient.
Quality Evaluate(absl::Span<const float> parameters,
                 absl::Span<const Example> examples);

// The root of the sum of squares.
double Norm(absl::Span<const float> values);

// The largest absolute difference of two elements at the same place. REQUIRES:
// the arrays are equally long.
float LargestDifference(absl::Span<const float> a, absl::Span<const float> b);

}  // namespace train

#endif  // TUTTI_EXAMPLES_TRAIN_MODEL_H_
