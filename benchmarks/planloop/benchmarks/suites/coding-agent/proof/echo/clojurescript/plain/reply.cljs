(ns reply)

(defn reply [body type answer]
  (answer body type))
