(ns reply)

(defn reply [body type answer]
  (answer (if (pos? (.-length body)) body "nothing to echo") type))
