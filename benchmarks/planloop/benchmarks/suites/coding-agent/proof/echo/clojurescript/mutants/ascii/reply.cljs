(ns reply)

(defn reply [body type answer]
  (answer (.toString body "ascii") type))
