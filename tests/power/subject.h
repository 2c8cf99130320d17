#pragma once

// What a disk after a power cut must hold, by what was told before. Each kind of state has its own
// subject (the files *_subject.cpp), which checks with the code of the product.

#include <memory>
#include <string>

namespace power {

class Subject {
 public:
  virtual ~Subject() = default;
  // What the test said at this point: what it began, what it was told.
  virtual void mark(const std::string& text) = 0;
  // What is missing or wrong in the tree; "" if nothing is. May change the tree.
  virtual std::string check(const std::string& tree) = 0;
};

// Marks "begin STEP TAG" before a checkpoint of that step and tag (its generation) is written to
// TREE/checkpoints and "done STEP TAG" after; "begin clear", "done clear".
std::unique_ptr<Subject> checkpoint_subject();

// Marks "begin {...}" before a request to the service with its state in TREE/local, and "done
// {...}" after its answer; "done" alone for what the service told by itself. The objects:
//   {"submit": NAME, "project": FILE's content or null}, {"scale": NAME, "min": N, "max": N},
//   {"suspended": NAME, "is": true or false}, {"cancel": NAME}, {"ended": NAME, "phase": PHASE},
//   {"delete": NAME}
std::unique_ptr<Subject> service_subject();

// Marks "begin FILE" before a program writes a file of weights, TREE/FILE, and "done FILE SHA256"
// once it has been announced.
std::unique_ptr<Subject> model_subject();

}  // namespace power
